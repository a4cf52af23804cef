// The board: everything that is held, in its sections, as filtered and sorted.

import { byId, keyed, mark, say, show } from './dom.js';
import { makeFeed } from './feed.js';
import { makeGateway } from './gateway.js';
import { makeAlone, makeService } from './holders.js';
import { makeResolver } from './resolver.js';
import { backendText, fold, has, objectText, objectTrouble, serviceTrouble } from './trouble.js';
import { plural } from './words.js';
import { makeWindows } from './window.js';

const KINDS = { pools: ['pool', makeAlone], sets: ['set', makeAlone], gateways: ['gateway', makeGateway], feeds: ['feed', makeFeed], windows: ['window', makeWindows], resolvers: ['resolver', makeResolver] };

const section = (id, make) => {
  const node = byId(id);
  return { node, update: keyed(node.querySelector('.panels'), make) };
};

const services = section('services', makeService);
const leaving = section('leaving', makeService);
const kinds = Object.entries(KINDS).map(([id, [type, make]]) => ({ type, ...section(id, make) }));

// `chosen`: `{ sought, only, sort }`, what the filter wants.
export function showBoard(view, at, chosen) {
  const objects = view.monitor.objects;
  const index = new Map(objects.map((object) => [object.id, object]));
  const names = nameAll(objects);
  const context = { ...chosen, at, byId: index, names, history: view.history, idOf: once() };
  const owned = new Set();
  const entry = (service) => {
    const own = service.objects.map((id) => index.get(id)).filter(Boolean);
    own.forEach((object) => owned.add(object.id));
    return ofService(service, own);
  };
  const parts = [
    [services, view.services.map(entry)],
    [leaving, view.leaving.map(entry)],
  ];
  for (const kind of kinds) parts.push([kind, objects.filter((object) => object.type === kind.type && !owned.has(object.id)).map((object) => ofObject(object, names))]);
  const all = parts.flatMap(([, entries]) => entries);
  let shown = 0;
  for (const [{ node, update }, entries] of parts) {
    const found = sorted(entries.filter((entry) => isFound(entry, chosen)), chosen.sort);
    update(found, (entry) => entry.key, context);
    show(node, found.length > 0);
    shown += found.length;
  }
  let columns = 0;
  for (const column of document.querySelectorAll('.column')) {
    const used = column.querySelector(':scope > section:not([hidden])') !== null;
    show(column, used);
    columns += used ? 1 : 0;
  }
  mark(byId('board'), 'data-columns', columns);
  show(byId('board'), shown > 0);
  tellWhatIsMissing(all.length, shown, chosen);
  return all;
}

function ofService(service, objects) {
  const trouble = serviceTrouble(service, objects);
  const text = () => fold([service.name, service.protocol, service.listen, service.status, service.trouble, 'service', trouble > 0 && 'trouble']);
  const rows = () =>
    objects.flatMap((object) => {
      const own = objectText(object);
      return [own, ...object.backends.map((backend) => `${own}\n${backendText(backend)}`)];
    });
  return { key: `${service.name} ${service.listen}`, name: service.name, service, objects, trouble, left: left(text), rows };
}

// The words of a filter that an entry's own text does not have. The text is made when there is a filter.
const left = (text) => (sought) => {
  const own = sought.length > 0 ? text() : '';
  return sought.filter((word) => !own.includes(word));
};

// Each id once: of two that would have the same, such as two services of one name and address that leave, the first has it.
function once() {
  const taken = new Set();
  return (id) => {
    if (taken.has(id)) return null;
    taken.add(id);
    return id;
  };
}

// What each object is known by while it is shown: ids are others after a restart, names are the same. Of some with the same name, the
// older ones come first.
function nameAll(objects) {
  const seen = new Map();
  return new Map(
    objects.map(({ id, type, name }) => {
      const key = `${type} ${name}`;
      seen.set(key, (seen.get(key) ?? 0) + 1);
      return [id, `${key} ${seen.get(key)}`];
    }),
  );
}

function ofObject(object, names) {
  const rows = () => (object.type === 'pool' || object.type === 'set' ? object.backends.map(backendText) : []);
  return { key: names.get(object.id), name: object.name, object, trouble: objectTrouble(object), left: left(() => objectText(object)), rows };
}

function isFound({ trouble, left, rows }, { sought, only }) {
  if (only && trouble === 0) return false;
  const words = left(sought);
  return words.length === 0 || rows().some((row) => has(row, words));
}

function sorted(entries, sort) {
  const byName = (a, b) => a.name.localeCompare(b.name, 'en', { numeric: true });
  return entries.sort(sort === 'trouble' ? (a, b) => b.trouble - a.trouble || byName(a, b) : byName);
}

function tellWhatIsMissing(all, shown, { sought, only }) {
  const filtered = sought.length > 0 || only;
  say(byId('matches'), filtered && all > 0 ? `${shown} of ${all}` : '');
  const empty = byId('empty');
  show(empty, shown === 0);
  if (all === 0) say(empty, 'Nothing is held. Pools, sets, windows, feeds and resolvers appear here as soon as there are any.');
  else if (only && sought.length === 0) say(empty, `No trouble: all ${all} work.`);
  else say(empty, `None of ${plural(all, 'entry', 'entries')} matches. Esc clears the filter.`);
}

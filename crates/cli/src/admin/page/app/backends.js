// The backends of a pool or a set, those in trouble first: who it is, its strip of cells, and why it does not work.

import { halt, until } from './clock.js';
import { el, keyed, mark, say, sayOrHide, show } from './dom.js';
import { makeStrip, sizeOf } from './strip.js';
import { backendTrouble, matches } from './trouble.js';
import { address, known, plural, running, span, sum, tally, words } from './words.js';

// Of more than that, those that work are shown when they are asked for.
const SHOWN = 12;

export function makeBackends() {
  const list = el('ul', { class: 'backends' });
  const more = el('button', { type: 'button', class: 'more', 'aria-expanded': 'false' });
  const none = el('p', { class: 'quiet none' }, 'No backends are known.');
  const node = el('div', {}, list, none, more);
  const update = keyed(list, makeRow);
  let all = false;
  let last = () => {};
  more.addEventListener('click', () => {
    all = !all;
    last();
  });
  return {
    node,
    // `found`: the words of the filter that the panel itself does not answer to.
    update(object, context, found) {
      mark(list, 'data-kind', object.type);
      const size = sizeOf(sum(object.backends.map((backend) => (backend.slots ?? backend.connections).length)));
      const rows = object.backends.filter((backend) => matches(backend, found)).map((backend) => ({ backend, object, size }));
      if (context.sort === 'trouble') rows.sort((a, b) => backendTrouble(b.backend) - backendTrouble(a.backend));
      else rows.sort((a, b) => title(a.backend).localeCompare(title(b.backend), 'en', { numeric: true }));
      last = () => {
        const bad = rows.filter((row) => backendTrouble(row.backend) > 0).length;
        const shown = all || rows.length <= SHOWN + 1 ? rows.length : Math.max(SHOWN, Math.min(bad, 4 * SHOWN));
        rows.forEach((row, at) => (row.hidden = at >= shown));
        update(rows, ({ backend }) => backend.key, context);
        show(more, rows.length > SHOWN + 1);
        mark(more, 'aria-expanded', all);
        say(more, all ? 'Show fewer' : `Show ${plural(rows.length - shown, 'more backend')}`);
        show(none, object.backends.length === 0);
      };
      last();
    },
  };
}

const title = (backend) => backend.name || address(backend);

function makeRow() {
  const lamp = el('span', { class: 'lamp', role: 'img' });
  const name = el('bdi', { class: 'name' });
  const place = el('bdi', { class: 'quiet mono' });
  const state = el('span', { class: 'tag' });
  const strip = makeStrip();
  const counts = el('span', { class: 'counts quiet' });
  const use = el('span', { class: 'use quiet' });
  const reason = el('bdi', { class: 'reason' });
  const next = el('span', { class: 'next' });
  const why = el('p', { class: 'why' }, el('span', { class: 'because' }, state, reason), next);
  const node = el('li', { class: 'backend' }, el('p', { class: 'whom' }, lamp, name, place), strip.node, counts, use, why);
  return {
    node,
    update({ backend, object, size, hidden }, { at }) {
      show(node, !hidden);
      if (hidden) return void halt(next);
      const trouble = backendTrouble(backend);
      mark(node, 'data-trouble', trouble);
      mark(lamp, 'data-lamp', lampOf(trouble, backend));
      const own = address(backend);
      const named = backend.name && backend.name !== own && backend.name !== backend.address;
      say(name, named ? backend.name : own);
      mark(name, 'class', named ? 'name' : 'name mono');
      sayOrHide(place, named ? own : '');
      const health = healthOf(backend);
      mark(lamp, 'aria-label', health);
      sayOrHide(state, health === 'healthy' ? '' : health);
      const told = backend.slots ? slots(backend) : connections(backend, object);
      strip.update(told.cells, size, told.all);
      say(counts, told.words);
      sayOrHide(use, backend.typical_use_us ? `${span(backend.typical_use_us / 1000)} a use` : '');
      sayOrHide(reason, backend.reason);
      const waits = tellNext(next, backend, at);
      show(next, waits);
      show(why, health !== 'healthy' || Boolean(backend.reason) || waits);
    },
  };
}

// The state, or a flag that says more; and whether a backend that is judged out is used all the same.
function healthOf(backend) {
  switch (backend.state) {
    case 'unknown':
    case 'healthy': {
      const flag = ['failing', 'stalled', 'unreliable'].find((name) => backend[name]);
      if (flag) return words(flag);
      if (known(backend.held_off_ms)) return 'held off';
      return words(backend.slow_start ? 'slow_start' : backend.state);
    }
    case 'ejected':
    case 'unhealthy':
      return backend.out ? words(backend.state) : `${words(backend.state)}, used in a panic`;
    default:
      return words(backend.state);
  }
}

function tellNext(node, backend, at) {
  if (known(backend.ejected_ms)) {
    until(node, at + backend.ejected_ms, (left) => say(node, `ejected for ${running(left)}`));
  } else if (known(backend.held_off_ms)) {
    until(node, at + backend.held_off_ms, (left) => say(node, `no spares for ${running(left)}`));
  } else if (known(backend.next_attempt_ms)) {
    until(node, at + backend.next_attempt_ms, (left) => say(node, left > 0 ? `next attempt in ${running(left)}` : 'next attempt now'));
  } else {
    halt(node);
    return false;
  }
  return true;
}

function lampOf(trouble, backend) {
  if (trouble >= 2) return 'bad';
  if (trouble === 1) return 'warn';
  return backend.state === 'healthy' ? 'ok' : 'none';
}

function slots(backend) {
  const counts = new Map(['busy', 'idle', 'checking', 'connecting', 'backoff', 'held', 'closing'].map((phase) => [phase, 0]));
  for (const { phase } of backend.slots) counts.set(phase, (counts.get(phase) ?? 0) + 1);
  const told = tally(counts);
  return {
    cells: backend.slots.map(({ phase }) => ({ cell: phase })),
    words: told || 'no slots',
    all: backend.slots.length > 0 ? `${plural(backend.slots.length, 'slot')}: ${told}` : 'no slots',
  };
}

const SIGNS = { marked: 'marked', before_release: 'released next', released: 'released' };
const LETTERS = { marked: 'M', before_release: 'R', released: 'X' };

function connections(backend, object) {
  const cells = backend.connections.map((connection) => {
    const used = connection.leases > 0;
    const cell = used ? 'busy' : connection.idle === 'using' ? 'idle' : connection.idle;
    return { cell, text: used ? String(connection.leases) : LETTERS[connection.idle] ?? '0', wide: true, kept: connection.kept, draining: connection.draining };
  });
  for (let dial = 0; dial < Math.min(backend.dialling, 1000); dial++) cells.push({ cell: 'connecting', wide: true });
  const leases = sum(backend.connections.map((connection) => connection.leases));
  const unused = backend.connections.filter((connection) => connection.leases === 0);
  const roles = new Map();
  for (const connection of backend.connections) {
    for (const [role, number] of Object.entries(connection.roles ?? {})) roles.set(role, (roles.get(role) ?? 0) + number);
  }
  const parts = [leases > 0 ? plural(leases, 'lease') + (roles.size > 0 ? ` (${tally(roles)})` : '') : '', ageing(unused, object.options.max_idle_ms)];
  if (backend.dialling > 0) parts.push(`${plural(backend.dialling, 'dial')} under way`);
  const told = parts.filter(Boolean).join(' · ') || (cells.length > 0 ? 'unused' : 'not connected');
  return { cells, words: told, all: `${plural(backend.connections.length, 'connection')}: ${told}` };
}

// What becomes of connections that nobody holds.
function ageing(unused, maxIdle) {
  if (unused.length === 0) return '';
  const longest = Math.max(...unused.map((connection) => connection.idle_ms ?? 0));
  const idle = `${unused.length > 1 ? `${unused.length} idle, up to` : 'idle'} ${running(longest)}`;
  if (unused.every((connection) => connection.kept)) return `${idle}, kept`;
  const marks = new Map();
  for (const connection of unused) {
    const sign = SIGNS[connection.idle];
    if (sign) marks.set(sign, (marks.get(sign) ?? 0) + 1);
  }
  const marked = unused.length === 1 ? SIGNS[unused[0].idle] : tally(marks);
  return [idle + (maxIdle ? ` of ${running(maxIdle)}` : ''), marked].filter(Boolean).join(', ');
}

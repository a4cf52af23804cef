// Services, and the pools and sets below them or on their own.

import { makeBackends } from './backends.js';
import { halt, since } from './clock.js';
import { el, keyed, mark, say, sayOrHide, show } from './dom.js';
import { makeDetails, makePanel } from './panel.js';
import { makeSpark, rateOf } from './spark.js';
import { fold, objectTrouble, serviceTrouble } from './trouble.js';
import { count, known, plural, running, span, sum, words } from './words.js';

export function makeService() {
  const panel = makePanel();
  const holders = el('div');
  const none = el('p', { class: 'quiet none' }, 'Nothing is held for it.');
  panel.body.append(holders, none);
  const update = keyed(holders, makeHolder);
  return {
    node: panel.node,
    update({ service, objects, left: leftOf }, context) {
      const left = leftOf(context.sought);
      const waiting = sum(objects.map((object) => object.waiting));
      panel.update({
        id: context.idOf(`service-${service.name}-${service.listen}`),
        title: service.name,
        about: [service.protocol, service.listen, service.status === 'ok' ? '' : service.status],
        facts: [
          ['clients', count(service.clients)],
          ['in line', count(waiting), waiting > 0 ? 'warn' : null],
          ['served', count(service.served)],
          ['failed', count(service.failed), service.failed > 0 ? 'note' : null],
        ],
        trouble: serviceTrouble(service, objects),
        words: isTold(service.trouble, objects) ? '' : service.trouble,
      });
      update(objects.map((object) => ({ object, left, alone: objects.length === 1, said: service.trouble ?? '' })), ({ object }) => context.names.get(object.id), context);
      show(none, objects.length === 0);
    },
  };
}

// Whether a backend's own line says so already.
function isTold(trouble, objects) {
  const reasons = objects.flatMap((object) => object.backends.map((backend) => backend.reason));
  return Boolean(trouble) && reasons.some((reason) => reason && trouble.includes(reason));
}

// A pool or a set of no service.
export function makeAlone() {
  const panel = makePanel();
  const holder = makeHolder();
  panel.body.append(holder.node);
  return {
    node: panel.node,
    update({ object, left }, context) {
      panel.update({
        id: `object-${object.id}`,
        title: object.name,
        about: [object.state === 'running' ? '' : words(object.state)],
        facts: [['in line', count(object.waiting), object.waiting > 0 ? 'warn' : null]],
        trouble: objectTrouble(object),
        state: object.state,
      });
      holder.update({ object, left: left(context.sought), alone: true }, context);
    },
  };
}

function makeHolder() {
  const kind = el('span', { class: 'kind' });
  const name = el('bdi');
  const state = el('span', { class: 'tag' });
  const title = el('h4', {}, kind, ' ', name, ' ', state);
  const claims = makeSpark('claim');
  const leases = makeSpark('lease');
  const load = el('p', { class: 'load quiet' });
  const waits = el('p', { class: 'waits' });
  const cause = el('p', { class: 'trouble' });
  const backends = makeBackends();
  const details = makeDetails();
  const to = el('a');
  const resolver = el('p', { class: 'quiet resolved' }, 'Backends from resolver ', to);
  const node = el('section', { class: 'holder' }, title, el('div', { class: 'gauges' }, claims.node, leases.node, load), waits, cause, backends.node, details.node);
  details.node.append(resolver);
  return {
    node,
    // `said`: what the service says, which is not said again.
    update({ object, left, alone, said = '' }, context) {
      const pool = object.type === 'pool';
      mark(node, 'id', alone ? null : context.idOf(`object-${object.id}`));
      mark(node, 'aria-label', `${object.type} ${object.name}`);
      say(kind, object.type);
      say(name, object.name);
      sayOrHide(state, object.state === 'running' ? '' : words(object.state));
      show(title, !alone || object.state !== 'running');
      show(claims.node, pool);
      show(leases.node, !pool);
      (pool ? claims : leases).update(context.history[object.id]);
      say(load, (pool ? loadOfPool : loadOfSet)(object, rateOf(context.history[object.id])));
      const longest = object.longest_wait_ms;
      show(waits, object.waiting > 0);
      const line = `${plural(object.waiting, 'caller')} in line`;
      if (known(longest)) since(waits, context.at - longest, (ms) => say(waits, `${line}, the first for ${running(ms)}`));
      else halt(waits, line);
      sayOrHide(cause, isTold(object.cause, [object]) || said.includes(object.cause) ? '' : object.cause);
      const own = fold([object.name, object.type, object.state]);
      backends.update(object, context, left.filter((word) => !own.includes(word)));
      details.update(object.name, pool ? figuresOfPool(object) : figuresOfSet(object));
      const source = context.byId.get(object.resolver);
      show(resolver, source !== undefined);
      if (source) {
        say(to, source.name);
        mark(to, 'href', `#object-${source.id}`);
      }
    },
  };
}

function loadOfPool(pool, rate) {
  const slots = sum(pool.backends.map((backend) => backend.slots.length));
  return [rate, `${plural(slots, 'slot')} of ${count(pool.options.maximum)}`, `target ${count(pool.target)}`].filter(Boolean).join(' · ');
}

function loadOfSet(set, rate) {
  const connections = sum(set.backends.map((backend) => backend.connections.length));
  return [rate, plural(connections, 'connection'), plural(set.leases, 'lease'), set.dialling > 0 ? `${count(set.dialling)} dialling` : ''].filter(Boolean).join(' · ');
}

const alert = (number) => (number > 0 ? 'note' : null);

function figuresOfPool({ options, counters, last_plan_ms: planned, check_cause: check }) {
  return [
    ['spares', count(options.spares)],
    ['maximum', count(options.maximum)],
    ['claim timeout', span(options.claim_timeout_ms)],
    ['claims', count(counters.claims)],
    ['had to wait', count(counters.waited)],
    ['wait, on average', counters.waited > 0 ? span(counters.waited_ms / counters.waited) : '–'],
    ['timed out', count(counters.timeouts), alert(counters.timeouts)],
    ['refused', count(counters.refused), alert(counters.refused)],
    ['held too long', count(counters.overdue), alert(counters.overdue)],
    ['connects', count(counters.connects)],
    ['failed connects', count(counters.connect_failures), alert(counters.connect_failures)],
    counters.check_failures > 0 && ['failed checks', `${count(counters.check_failures)} of ${count(counters.checks)}`, 'note'],
    known(check) && ['last failed check', check],
    ['plans', count(counters.plans)],
    ['last plan', known(planned) ? `${running(planned)} ago` : 'never'],
  ];
}

function figuresOfSet({ options, counters, last_plan_ms: planned }) {
  const told = (value, tell) => (known(value) ? tell(value) : '–');
  return [
    ['per backend', count(options.per_backend)],
    ['target', known(options.target) ? count(options.target) : 'lazy'],
    ['maximum', told(options.maximum, count)],
    ['released after', told(options.max_idle_ms, span)],
    ['leases given', count(counters.leases)],
    ['had to wait', count(counters.waited)],
    ['wait, on average', counters.waited > 0 ? span(counters.waited_ms / counters.waited) : '–'],
    ['timed out', count(counters.timeouts), alert(counters.timeouts)],
    ['refused', count(counters.refused), alert(counters.refused)],
    ['connects', count(counters.connects)],
    ['failed connects', count(counters.connect_failures), alert(counters.connect_failures)],
    ['released unused', count(counters.released)],
    ['last plan', told(planned, (ms) => `${running(ms)} ago`)],
  ];
}

// Feeds: how full they are, connection by connection.

import { halt, since, until } from './clock.js';
import { el, keyed, mark, say, sayOrHide, show } from './dom.js';
import { makeBar, makeDetails, makePanel } from './panel.js';
import { objectTrouble } from './trouble.js';
import { count, known, running, words } from './words.js';

export function makeFeed() {
  const panel = makePanel();
  const bar = makeBar('topics of the capacity');
  const full = el('span', { class: 'quiet' });
  const list = el('ul', { class: 'lines' });
  const update = keyed(list, makeConnection);
  const cause = el('p', { class: 'trouble' });
  const details = makeDetails();
  panel.body.append(el('p', { class: 'capacity' }, bar.node, full), cause, list, details.node);
  return {
    node: panel.node,
    update({ object }, context) {
      const { counters } = object;
      panel.update({
        id: `object-${object.id}`,
        title: object.name,
        about: [object.state === 'running' ? '' : words(object.state)],
        facts: [
          ['topics', count(object.topics)],
          ...(object.outside ? [] : [['ticks', count(counters.ticks)]]),
        ],
        trouble: objectTrouble(object),
        state: object.state,
      });
      // Without an upstream there is no limit, and no connection that says anything.
      const { outside } = object;
      const told = outside ? `${count(object.topics)} topics; ticks are what other programs publish on the bus` : `${count(object.topics)} of ${count(object.capacity)} topics, ${count(object.live)} live`;
      show(bar.node, !outside);
      bar.update(object.topics, object.capacity, told, level(object.topics, object.capacity));
      say(full, told);
      sayOrHide(cause, object.cause);
      const connections = outside ? [] : object.connections;
      update(connections.map((connection) => ({ connection, most: object.max_topics_per_connection })), ({ connection }) => connection.index, context);
      details.update(object.name, [
        ...(outside ? [] : ofUpstream(object)),
        ['most there were', count(object.peak_topics)],
        ['wait for a topic', count(object.waiting)],
        ...Object.entries(object.passed_over ?? {}).map(([what, times]) => [`no tick: ${what}`, count(times)]),
      ]);
    },
  };
}

function ofUpstream({ max_connections: most, max_topics_per_connection: each, counters }) {
  return [
    ['connections at most', count(most)],
    ['topics on each', count(each)],
    ['connects', count(counters.connects)],
    ['failed connects', count(counters.connect_failures), counters.connect_failures > 0 ? 'note' : null],
    ['lost', count(counters.lost), counters.lost > 0 ? 'note' : null],
  ];
}

const level = (value, most) => (most > 0 && value / most >= 0.9 ? 'warn' : null);

function makeConnection() {
  const index = el('span', { class: 'name' });
  const state = el('span', { class: 'tag' });
  const bar = makeBar('topics of this connection');
  const counts = el('span', { class: 'counts quiet' });
  const next = el('span', { class: 'next' });
  const node = el('li', { class: 'line' }, el('p', { class: 'whom' }, index, state), bar.node, counts, next);
  return {
    node,
    update({ connection, most }, { at }) {
      mark(node, 'data-trouble', connection.state === 'waiting' ? 2 : 0);
      say(index, `№ ${connection.index}`);
      say(state, connection.state);
      mark(state, 'data-state', connection.state);
      const told = `${count(connection.topics)} of ${count(most)}`;
      bar.update(connection.topics, most, `${told} topics`);
      const idle = known(connection.idle) && connection.idle !== 'using' ? words(connection.idle) : '';
      say(counts, [told, idle].filter(Boolean).join(' · '));
      if (known(connection.next_attempt_ms)) {
        until(next, at + connection.next_attempt_ms, (left) => say(next, left > 0 ? `opened again in ${running(left)}` : 'opened again now'));
      } else if (connection.unwritten > 0) {
        halt(next, `${count(connection.unwritten)} unwritten`);
      } else if (known(connection.heard_ms)) {
        since(next, at - connection.heard_ms, (ms) => say(next, ms < 2000 ? 'heard just now' : `heard ${running(ms)} ago`));
      } else halt(next);
    },
  };
}

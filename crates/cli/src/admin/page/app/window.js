// Requesters: their windows as they open, take requests, and close.

import { halt, until } from './clock.js';
import { el, keyed, mark, say, show } from './dom.js';
import { makeDetails, makePanel, makeRest } from './panel.js';
import { objectTrouble } from './trouble.js';
import { count, known, plural, running, span, words } from './words.js';

export function makeWindows() {
  const panel = makePanel();
  const list = el('ul', { class: 'windows' });
  const update = keyed(list, makeWindow);
  const none = el('p', { class: 'quiet none' }, 'No window is open: nobody asks.');
  const details = makeDetails();
  panel.body.append(list, none, details.node);
  return {
    node: panel.node,
    update({ object }, context) {
      const { options, counters } = object;
      panel.update({
        id: `object-${object.id}`,
        title: object.name,
        about: [object.state === 'running' ? '' : words(object.state), plural(object.nodes.length, 'node')],
        facts: [
          ['asking', count(object.asking)],
          ['in line', count(object.in_line), object.in_line > 0 ? 'warn' : null],
        ],
        trouble: objectTrouble(object),
        state: object.state,
      });
      update(object.windows.map((window) => ({ window, options })), ({ window }) => window.id, context);
      show(none, object.windows.length === 0);
      details.update(object.name, [
        ['takes requests for', span(options.active_for_ms)],
        ['requests each', count(options.request_limit)],
        ['windows at most', known(options.max_windows) ? count(options.max_windows) : 'any number'],
        ['requests', count(counters.requests)],
        ['answered', count(counters.answered)],
        ['failed', count(counters.failed), counters.failed > 0 ? 'note' : null],
        ['windows', count(counters.windows)],
        ['sockets', count(counters.sockets)],
      ]);
    },
  };
}

function makeWindow() {
  const number = el('span', { class: 'name' });
  const state = el('span', { class: 'tag' });
  const counts = el('span', { class: 'counts quiet' });
  const next = el('span', { class: 'next' });
  const rest = makeRest();
  const sockets = el('ul', { class: 'sockets' });
  const update = keyed(sockets, () => {
    const [node, waiting] = [el('bdi'), el('span', { class: 'quiet' })];
    return {
      node: el('li', { class: 'socket' }, node, waiting),
      update(socket) {
        say(node, socket.node);
        say(waiting, count(socket.waiting));
        mark(waiting, 'title', `${plural(socket.waiting, 'request')} waiting for an answer`);
        mark(waiting, 'aria-label', `${count(socket.waiting)} waiting`);
      },
    };
  });
  const node = el('li', { class: 'window' }, el('p', { class: 'whom' }, number, state), el('p', {}, counts, next), rest.node, sockets);
  return {
    node,
    update({ window, options }, { at }) {
      const open = known(window.active_ms);
      say(number, `№ ${window.id}`);
      say(state, open ? 'open' : 'closing');
      mark(state, 'data-state', open ? 'open' : 'closing');
      say(counts, `${window.started} of ${options.request_limit} started, ${window.asking} under way`);
      show(rest.node, open);
      if (open) {
        until(next, at + window.active_ms, (left) => {
          say(next, `${running(left)} left`);
          rest.update(options.active_for_ms > 0 ? Math.min(left / options.active_for_ms, 1) : 0);
        });
      } else halt(next, window.sockets.length > 0 ? 'takes no more' : 'over');
      update(window.sockets, (socket) => socket.node);
    },
  };
}

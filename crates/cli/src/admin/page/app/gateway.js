// The gateway: its clients, what they are told, and for whom most waits.

import { el, keyed, mark, say, show } from './dom.js';
import { makeDetails, makePanel } from './panel.js';
import { objectTrouble } from './trouble.js';
import { count, known, plural, running, words } from './words.js';

// Of the fifty that are known.
const SHOWN = 10;

export function makeGateway() {
  const panel = makePanel();
  const feeds = el('ul', { class: 'inline' });
  const updateFeeds = keyed(feeds, makeFeedLink);
  const rows = el('tbody');
  const update = keyed(rows, makeClient);
  const head = el('tr', {}, ...['client', 'topics', 'waiting', 'conflated'].map((title) => el('th', { scope: 'col' }, title)));
  const table = el('table', {}, el('caption', {}, 'Clients for whom most waits'), el('thead', {}, head), rows);
  const more = el('button', { type: 'button', class: 'more', 'aria-expanded': 'false' });
  const none = el('p', { class: 'quiet none' }, 'No clients.');
  const details = makeDetails();
  panel.body.append(feeds, table, more, none, details.node);
  let all = false;
  let last = () => {};
  more.addEventListener('click', () => {
    all = !all;
    last();
  });
  return {
    node: panel.node,
    update({ object }, context) {
      panel.update({
        id: `object-${object.id}`,
        title: object.name,
        about: [object.listen, object.state === 'running' ? '' : words(object.state)],
        facts: [
          ['clients', count(object.clients)],
          ['subscriptions', count(object.subscriptions)],
          ['ticks', count(object.ticks)],
          ['conflated', count(object.conflated), object.conflated > 0 ? 'note' : null],
        ],
        trouble: objectTrouble(object),
        state: object.state,
      });
      show(feeds, object.feeds.length > 0);
      updateFeeds(object.feeds, ({ broker, user }) => `${broker} ${user}`, context);
      last = () => {
        update(all ? object.worst : object.worst.slice(0, SHOWN), ({ id }) => id, context);
        show(more, object.worst.length > SHOWN);
        mark(more, 'aria-expanded', all);
        say(more, all ? 'Show fewer' : `Show ${plural(object.worst.length - SHOWN, 'more client')}`);
      };
      last();
      show(table, object.worst.length > 0);
      show(none, object.clients === 0);
      details.update(object.name, [
        ['authenticated', count(object.authenticated)],
        ['delivered', count(object.delivered)],
        ['lost', count(object.lost), object.lost > 0 ? 'note' : null],
        ['malformed', count(object.malformed), object.malformed > 0 ? 'note' : null],
        ['turned away', count(object.refused), object.refused > 0 ? 'note' : null],
        ['closed as slow', count(object.slow_closed), object.slow_closed > 0 ? 'note' : null],
        ['wrong keys', count(object.wrong_keys), object.wrong_keys > 0 ? 'note' : null],
      ]);
    },
  };
}

function makeFeedLink() {
  const to = el('a');
  const owner = el('bdi', { class: 'quiet' });
  return {
    node: el('li', {}, 'feed ', to, ' ', owner),
    update({ broker, user, feed, share, bus, last_tick_ms: last }, { byId }) {
      say(to, `${broker} / ${user}`);
      mark(to, 'href', byId.has(feed) ? `#object-${feed}` : null);
      const tick = known(last) ? `last tick ${running(last)} ago` : 'no tick yet';
      say(owner, [share && ownerOf(share), bus && busOf(bus), tick].filter(Boolean).join(', '));
    },
  };
}

// Of a feed that several gateways have together.
function ownerOf({ owns, owner, epoch }) {
  const who = owns ? 'owned here' : owner === null ? 'owned by nobody that is known' : `owned by ${owner}`;
  return epoch === null ? who : `${who}, epoch ${epoch}`;
}

// Of a feed whose ticks go through a bus that other programs are on.
function busOf({ kind, peers, dropped }) {
  const on = `on ${kind}, ${plural(peers, 'peer')}`;
  return dropped > 0 ? `${on}, ${count(dropped)} dropped` : on;
}

function makeClient() {
  const [address, user] = [el('bdi', { class: 'mono' }), el('bdi', { class: 'quiet' })];
  const figures = [el('td'), el('td'), el('td')];
  return {
    node: el('tr', {}, el('th', { scope: 'row' }, address, ' ', user), ...figures),
    update(client) {
      say(address, client.address);
      say(user, client.user ?? 'has not said who it is');
      [client.subscriptions, client.waiting, client.conflated].forEach((number, at) => say(figures[at], count(number)));
      mark(figures[1], 'data-level', client.waiting >= 100 ? 'warn' : null);
    },
  };
}

// Resolvers: who serves, and each question with the time until it is asked again.

import { halt, until } from './clock.js';
import { el, keyed, mark, say, sayOrHide, show } from './dom.js';
import { makeDetails, makePanel, makeRest } from './panel.js';
import { objectTrouble } from './trouble.js';
import { address, count, known, plural, running, words } from './words.js';

// Of more than that, those that are not shown are counted.
const SHOWN = 60;

export function makeResolver() {
  const panel = makePanel();
  const questions = el('ul', { class: 'questions' });
  const update = keyed(questions, makeQuestion);
  const found = el('ul', { class: 'found' });
  const updateFound = keyed(found, () => {
    const node = el('li', { class: 'mono' });
    return { node, update: (text) => say(node, text) };
  });
  const backends = el('details', {}, el('summary', {}), found);
  const details = makeDetails();
  panel.body.append(questions, backends, details.node);
  // The longest wait that was seen of a question is how long its answer is good for, as far as anybody here knows.
  const longest = new Map();
  return {
    node: panel.node,
    update({ object }, context) {
      const { dns } = object;
      panel.update({
        id: `object-${object.id}`,
        title: object.name,
        about: [object.state === 'running' ? '' : words(object.state), known(object.stale_ms) ? `stale for ${running(object.stale_ms)}` : ''],
        facts: [['backends', count(object.backends.length)]],
        trouble: objectTrouble(object),
        words: isTold(object) ? '' : object.error,
        state: object.state,
      });
      const asked = dns?.questions ?? [];
      show(questions, asked.length > 0);
      update(asked.map((question) => ({ question, longest })), ({ question }) => keyOf(question), context);
      for (const key of longest.keys()) if (!asked.some((question) => keyOf(question) === key)) longest.delete(key);
      show(backends, object.backends.length > 0);
      say(backends.firstChild, plural(object.backends.length, 'backend'));
      const named = object.backends.slice(0, SHOWN).map(describe);
      if (object.backends.length > SHOWN) named.push(`and ${count(object.backends.length - SHOWN)} more`);
      updateFound(named, (text) => text);
      show(details.node, known(dns));
      if (dns) details.update(object.name, figuresOf(dns));
    },
  };
}

// Whether its questions say what its error is made of.
const isTold = ({ error, dns }) => Boolean(error) && (dns?.questions ?? []).some(({ trouble }) => trouble && error.includes(trouble));

const keyOf = (question) => `${question.kind} ${question.name}`;

function describe(backend) {
  const own = address(backend);
  const name = backend.name && backend.name !== own && backend.name !== backend.address ? `${backend.name} ` : '';
  const rank = backend.priority || backend.weight ? ` priority ${backend.priority}, weight ${backend.weight}` : '';
  return `${name}${own}${rank}`;
}

function makeQuestion() {
  const kind = el('span', { class: 'tag kind' });
  const name = el('bdi', { class: 'mono' });
  const state = el('span');
  const next = el('span', { class: 'next' });
  const rest = makeRest();
  const trouble = el('bdi', { class: 'reason' });
  const node = el('li', { class: 'question' }, el('p', { class: 'whom' }, kind, name), el('p', { class: 'counts quiet' }, state, next), rest.node, trouble);
  return {
    node,
    update({ question, longest }, { at }) {
      const key = keyOf(question);
      mark(node, 'data-trouble', question.state === 'failed' ? 2 : 0);
      say(kind, question.kind.toUpperCase());
      say(name, question.name);
      say(state, question.state === 'answered' ? plural(question.records, 'record') : question.state);
      show(rest.node, known(question.next_ms));
      if (known(question.next_ms)) {
        longest.set(key, Math.max(longest.get(key) ?? 0, question.next_ms));
        const whole = longest.get(key);
        until(next, at + question.next_ms, (left) => {
          say(next, left > 0 ? `asked again in ${running(left)}` : 'asked again now');
          rest.update(whole > 0 ? left / whole : 0);
        });
      } else halt(next);
      sayOrHide(trouble, question.trouble);
    },
  };
}

function figuresOf({ domain, service, default_port: port, nameservers, counters }) {
  return [
    ['domain', domain],
    service ? ['service', service] : null,
    ['default port', String(port)],
    ['nameservers', nameservers.join(', ') || 'none'],
    ['asked', count(counters.asked)],
    ['answered', count(counters.answered)],
    ['failed', count(counters.failed), counters.failed > 0 ? 'note' : null],
    ['published', plural(counters.published, 'time')],
  ];
}

// The head of the page: who this is, how it stands, how old what is shown is, and what else has to be said.

import { halt, hold, since } from './clock.js';
import { byId, figures, mark, say, show } from './dom.js';
import { count, running, seconds, sum, timeOfDay } from './words.js';

const LAMPS = { ok: 'ok', unknown: 'none', saturated: 'warn', degraded: 'bad', unavailable: 'bad', draining: 'stop' };

// What is said to those who hear the page: when something gets worse or better, not each second.
function announce(words) {
  byId('announced').textContent = words;
}

let standing = null;
let link = null;
let title = 'carom';

// Who does not see the page sees that: it is not to say that all is well when nobody knows.
function showTitle() {
  const unknown = { lost: 'not live: ', token: 'not live: ', resting: 'paused: ' }[link] ?? '';
  const text = unknown + title;
  if (document.title !== text) document.title = text;
}

export function showProgram({ program, status, services }) {
  say(byId('program'), program.name);
  say(byId('version'), program.version);
  say(byId('host'), `${program.host} · pid ${program.pid} · since ${since1970(program.started_at_ms)}`);
  mark(byId('lamp'), 'data-lamp', LAMPS[status] ?? 'none');
  say(byId('status'), status);
  title = `${status === 'ok' ? '' : `${status}: `}${program.host} – ${program.name}`;
  showTitle();
  const bad = services.filter((service) => service.status !== 'ok' && service.status !== 'unknown').map((service) => service.name);
  const now = `${status} ${bad.join(' ')}`;
  if (standing !== null && standing !== now) announce(bad.length > 0 ? `${status}: ${bad.join(', ')}` : `status ${status}`);
  standing = now;
}

const since1970 = (ms) => {
  const at = new Date(ms);
  const day = at.toDateString() === new Date().toDateString() ? '' : `${at.toLocaleDateString('en', { day: 'numeric', month: 'short' })} `;
  return day + timeOfDay(ms);
};

const totals = figures();

export function showTotals(view) {
  if (!totals.node.isConnected) byId('totals').append(totals.node);
  const objects = view.monitor.objects;
  const of = (...types) => objects.filter((object) => types.includes(object.type));
  const holders = of('pool', 'set');
  const backends = holders.flatMap((object) => object.backends);
  const dead = sum(holders.map((object) => object.dead));
  const slots = of('pool').flatMap((pool) => pool.backends.flatMap((backend) => backend.slots));
  const busy = slots.filter((slot) => slot.phase === 'busy').length;
  const waiting = sum(holders.map((object) => object.waiting));
  const rows = [
    ['services', count(view.services.length)],
    ['backends', count(backends.length)],
    ['dead', count(dead), dead > 0 ? 'bad' : null],
    ['slots busy', `${count(busy)} of ${count(slots.length)}`],
    ['leases', count(sum(of('set').map((set) => set.leases)))],
    ['in line', count(waiting), waiting > 0 ? 'warn' : null],
    of('feed').length > 0 && ['topics', count(sum(of('feed').map((feed) => feed.topics)))],
    of('gateway').length > 0 && ['clients', count(sum(of('gateway').map((gateway) => gateway.clients)))],
  ];
  totals.update(rows);
}

// How the stream is. Clocks stand still with what is shown when it is lost.
export function showLink(state, { at, taken, held }) {
  const lost = state.is === 'lost' || state.is === 'token' || state.is === 'resting';
  const is = held ? 'held' : state.is;
  link = state.is;
  showTitle();
  mark(byId('pulse'), 'data-link', is);
  mark(document.body, 'data-link', is);
  const live = state.every ? `every ${state.every / 1000} s` : 'live';
  mark(byId('link'), 'title', state.every ? state.why : null);
  say(byId('link'), held ? 'held' : { connecting: 'connecting', live, lost: 'not live', token: 'not live', resting: 'paused' }[state.is]);
  show(byId('lost'), state.is === 'lost');
  if (state.is === 'lost') {
    say(byId('lost-as-of'), taken === null ? 'Nothing was seen yet.' : `Shown as of ${timeOfDay(taken)}.`);
    say(byId('lost-why'), `${state.why[0].toUpperCase()}${state.why.slice(1)}.`);
    countDown(byId('lost-next'), state.next);
  } else {
    clearInterval(counting);
  }
  if (at !== null) hold(held ?? (lost ? at : null));
  showAge(at, taken, lost || held !== null);
}

function showAge(at, taken, still) {
  const age = byId('age');
  if (at === null) halt(age);
  else if (still) halt(age, `as of ${timeOfDay(taken)}`);
  else since(age, at, (ms) => say(age, ms < 1000 ? 'now' : `${seconds(ms)} old`));
}

// Clocks stand still while the connection is lost; this one runs.
let counting = null;

function countDown(node, end) {
  clearInterval(counting);
  const write = () => say(node, end > performance.now() ? `Next try in ${running(end - performance.now())}.` : 'Trying …');
  write();
  counting = setInterval(write, 250);
}

export function showRestart(before, after) {
  show(byId('restarted'), true);
  say(byId('restarted-words'), `It runs since ${timeOfDay(after.started_at_ms)} as ${after.version}, pid ${after.pid} instead of ${before.pid}; figures count from there.`);
  announce('the program was restarted');
}

let first = null;

// What was loaded with another version, or cannot show what comes, is better loaded again.
export function showOdd(program, error) {
  const version = program?.version ?? 'unknown';
  first ??= version;
  const told = error === null ? `It came with ${first}, and the program is ${version} by now.` : `What version ${version} tells cannot be shown here: ${error.message}.`;
  show(byId('odd'), error !== null || version !== first);
  say(byId('odd-words'), told);
}

export function announceLink(before, state) {
  if (state.is === 'lost' && before.is !== 'lost') announce('connection lost');
  if (state.is === 'live' && before.is === 'lost') announce('connected again');
}

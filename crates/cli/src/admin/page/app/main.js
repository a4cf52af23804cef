// The page: what comes by the stream is shown; what the user chooses is kept while it changes.

import { showBoard } from './board.js';
import { byId, mark, say, show } from './dom.js';
import { announceLink, showLink, showOdd, showProgram, showRestart, showTotals } from './head.js';
import { listen } from './keys.js';
import { Stream } from './stream.js';

// The latest view, when it came, and the one that is shown: another one while the picture is held.
let latest = null;
let shown = null;
let held = null;
let state = { is: 'connecting' };

const chosen = { sought: [], only: false, sort: 'trouble' };

const stream = new Stream({
  view(view) {
    const before = latest?.view.program;
    latest = { view, at: performance.now(), taken: view.monitor?.taken_at_ms ?? Date.now() };
    if (before && before.started_at_ms !== view.program?.started_at_ms) guarded(() => showRestart(before, view.program));
    if (held === null) shown = latest;
    draw();
  },
  state(next) {
    announceLink(state, next);
    state = next;
    if (state.is === 'token') ask(state.wrong);
    else if (state.is === 'live') show(byId('ask'), false);
    drawLink();
  },
});

function draw() {
  drawLink();
  guarded(() => {
    showProgram(latest.view);
    // Of a tab that is hidden, its title is all that is seen.
    if (shown === null || document.hidden) return;
    showTotals(shown.view);
    showBoard(shown.view, shown.at, chosen);
  });
}

// What cannot be drawn is no reason to ask for it again: it would be the same.
function guarded(act) {
  try {
    act();
    showOdd(latest.view.program, null);
  } catch (error) {
    showOdd(latest.view.program, error);
  }
}

function drawLink() {
  showLink(state, { at: shown?.at ?? null, taken: shown?.taken ?? null, held });
}

document.addEventListener('visibilitychange', () => latest !== null && draw());

function ask(wrong) {
  show(byId('ask'), true);
  say(byId('ask-words'), wrong ? 'That one was not accepted.' : 'It is kept until this tab is closed.');
  byId('token').value = '';
  byId('token').focus();
}

byId('ask').addEventListener('submit', (event) => {
  event.preventDefault();
  const token = byId('token').value.trim();
  byId('token').value = '';
  // What cannot be sent in a header is nobody's token.
  if (/^[\x21-\x7e]+$/.test(token)) stream.token(token);
  else ask(true);
});

byId('retry').addEventListener('click', () => stream.retry());

byId('restarted-ok').addEventListener('click', () => {
  show(byId('restarted'), false);
  byId('main').focus({ preventScroll: true });
});

byId('reload').addEventListener('click', () => location.reload());

byId('hold').addEventListener('click', () => {
  held = held === null ? performance.now() : null;
  mark(byId('hold'), 'aria-pressed', held !== null);
  say(byId('hold'), held === null ? 'Hold' : 'Go on');
  if (held === null) shown = latest;
  if (latest !== null) draw();
});

function choose(change) {
  Object.assign(chosen, change);
  if (latest !== null) draw();
}

byId('filter').addEventListener('input', () => {
  choose({ sought: byId('filter').value.toLowerCase().split(/\s+/).filter(Boolean) });
});

byId('only').addEventListener('click', () => {
  mark(byId('only'), 'aria-pressed', !chosen.only);
  choose({ only: !chosen.only });
});

byId('sort').addEventListener('change', () => choose({ sort: byId('sort').value }));

document.querySelector('.tools').addEventListener('submit', (event) => event.preventDefault());

listen();
stream.run();

// What runs between events: countdowns and ages. One timer for all of them; none while nobody looks.

import { say } from './dom.js';

const still = matchMedia('(prefers-reduced-motion: reduce)');
const shown = new Map();
let held = null;

export const now = () => held ?? performance.now();

// Shows what is left until `end`, again and again.
export function until(node, end, write) {
  run(node, (time) => write(Math.max(end - time, 0)));
}

// Shows how long it has been since `start`, again and again.
export function since(node, start, write) {
  run(node, (time) => write(Math.max(time - start, 0)));
}

// It shows this, and runs no more.
export function halt(node, text = '') {
  shown.delete(node);
  say(node, text);
}

// All clocks stand still: what is shown is as old as it says. Without a time, they go on.
export function hold(at = null) {
  held = at;
  tick();
}

function run(node, write) {
  shown.set(node, write);
  write(now());
}

function tick() {
  const time = now();
  for (const [node, write] of shown) {
    if (node.isConnected) write(time);
    else shown.delete(node);
  }
}

let timer = null;

function arm() {
  clearInterval(timer);
  timer = document.hidden ? null : setInterval(tick, still.matches ? 1000 : 100);
  if (!document.hidden) tick();
}

document.addEventListener('visibilitychange', arm);
still.addEventListener('change', arm);
arm();

// The stream of views: server-sent events read with fetch, as a token can be sent that way. It is begun again when it ends, and is not
// kept while nobody looks.

import { Parser } from './events.js';

const FIRST_DELAY = 250;
const LONGEST_DELAY = 5000;
// There is an event every second, and a head at once. Whoever says nothing for so long is not there, whatever the connection says.
const SILENCE = 10000;
// A browser has few connections for an address: a tab that has been hidden for so long leaves them to others.
const HIDDEN = 30000;
// How often it is asked for a view where too many listen already.
const POLL = 3000;
const TOKEN = 'carom token';

// `on.view(view)` for each event, which must not throw; `on.state(state)` with `{ is: 'connecting' | 'live' | 'resting' }`,
// `{ is: 'live', every, why }` where views are asked for every so many milliseconds, `{ is: 'lost', why, next }` where `next` is when it is tried again, or `{ is: 'token', wrong }`.
export class Stream {
  #on;
  #token = storage('getItem', TOKEN) ?? null;
  #given = () => {};
  // Ends whatever there is to wait for before the next attempt.
  #hurry = () => {};
  // Ends the attempt that is under way, as nobody looks.
  #rest = () => {};
  #unseen = false;

  constructor(on) {
    this.#on = on;
    let timer = null;
    const look = () => {
      clearTimeout(timer);
      if (document.hidden) timer = setTimeout(() => this.#hide(), HIDDEN);
      else this.#see();
    };
    document.addEventListener('visibilitychange', look);
    look();
  }

  // Runs for as long as the page is there.
  async run() {
    this.#on.state({ is: 'connecting' });
    for (let delay = 0; ; ) {
      if (this.#unseen) {
        this.#on.state({ is: 'resting' });
        await new Promise((resolve) => (this.#hurry = resolve));
        this.#on.state({ is: 'connecting' });
        delay = 0;
      }
      const { why, worked } = await this.#attempt();
      if (why === null) {
        delay = 0;
        continue;
      }
      // Whoever brings nothing but a first event, again and again, is asked less and less often.
      delay = worked ? FIRST_DELAY : Math.min(Math.max(delay * 2, FIRST_DELAY), LONGEST_DELAY);
      const wait = delay * (0.8 + 0.4 * Math.random());
      this.#on.state({ is: 'lost', why, next: performance.now() + wait });
      await this.#sleep(wait);
    }
  }

  // Not later, but now.
  retry() {
    this.#hurry();
  }

  token(text) {
    this.#token = text;
    storage('setItem', TOKEN, text);
    this.#given();
  }

  // Why the stream is over, and whether it worked; without a reason it is begun again at once, and nobody notices if that works.
  async #attempt() {
    const ear = new Ear();
    let events = 0;
    try {
      this.#rest = () => ear.close();
      this.#hurry = () => events === 0 && ear.close();
      const response = await this.#open(ear.signal);
      if (response.status === 401) {
        ear.close();
        await this.#ask();
        return { why: null };
      }
      if (response.status === 503) {
        await this.#poll(await answered(response), ear);
        return { why: null };
      }
      if (!response.ok) throw new Error(await answered(response));
      await this.#read(response, ear, () => (events += 1));
      return { why: events > 1 ? null : 'the stream ended', worked: events > 1 };
    } catch (error) {
      const broken = events > 0 ? 'the connection broke' : 'nobody answers';
      const why = error instanceof TypeError ? broken : error.message;
      return { why: ear.closed ? null : why, worked: events > 1 };
    } finally {
      ear.close();
      this.#hurry = this.#rest = () => {};
    }
  }

  // Where there is no place to listen: one view, and some time until a place is asked for again.
  async #poll(why, ear) {
    const response = await this.#open(ear.signal, 'api/snapshot', 'application/json');
    if (!response.ok) throw new Error(why);
    const view = parse(await response.text());
    ear.close();
    this.#on.state({ is: 'live', every: POLL, why });
    this.#on.view(view);
    await this.#sleep(POLL);
  }

  #open(signal, path = 'api/events', accept = 'text/event-stream') {
    const headers = new Headers({ accept });
    if (this.#token !== null) headers.set('authorization', `Bearer ${this.#token}`);
    return fetch(path, { headers, signal, cache: 'no-store', credentials: 'omit', redirect: 'error' });
  }

  #ask() {
    const wrong = this.#token !== null;
    this.#token = null;
    storage('removeItem', TOKEN);
    const given = new Promise((resolve) => (this.#given = resolve));
    this.#on.state({ is: 'token', wrong });
    return given;
  }

  async #read(response, ear, noted) {
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    const parser = new Parser();
    for (;;) {
      const { done, value } = await reader.read();
      if (done) return;
      ear.heard();
      for (const { type, data } of parser.push(value)) {
        if (type !== 'snapshot') continue;
        const view = parse(data);
        noted();
        this.#on.state({ is: 'live' });
        this.#on.view(view);
      }
    }
  }

  #sleep(ms) {
    return new Promise((resolve) => {
      const timer = setTimeout(resolve, ms);
      this.#hurry = () => {
        clearTimeout(timer);
        resolve();
      };
    });
  }

  #hide() {
    this.#unseen = true;
    this.#rest();
  }

  #see() {
    this.#unseen = false;
    this.#hurry();
  }
}

// Listens to somebody, for as long as something is heard now and then.
class Ear {
  #controller = new AbortController();
  #timer = null;
  closed = false;

  constructor() {
    this.heard();
  }

  get signal() {
    return this.#controller.signal;
  }

  heard() {
    clearTimeout(this.#timer);
    const silent = new Error(`nothing was heard for ${SILENCE / 1000} s`);
    this.#timer = setTimeout(() => this.#controller.abort(silent), SILENCE);
  }

  close() {
    this.closed = true;
    clearTimeout(this.#timer);
    this.#controller.abort();
  }
}

// What the server says of an error, in its own words if it has any.
async function answered(response) {
  let error = null;
  try {
    ({ error } = await response.json());
  } catch {
    // Then the number is all there is.
  }
  return `the server answered ${response.status}${typeof error === 'string' ? `: ${error}` : ''}`;
}

function parse(data) {
  let view = null;
  try {
    view = JSON.parse(data);
  } catch {
    // It is none.
  }
  if (typeof view !== 'object' || view === null) throw new Error('what came is no view');
  return view;
}

// Where nothing may be kept, the token is asked for again when the page is loaded again.
function storage(verb, ...values) {
  try {
    return sessionStorage[verb](...values);
  } catch {
    return null;
  }
}

// Server-sent events, out of the text that carries them.

// Takes text as it comes, and gives the events that are complete.
export class Parser {
  #rest = '';
  #type = '';
  #data = [];

  *push(text) {
    const lines = (this.#rest + text).split('\n');
    this.#rest = lines.pop();
    for (const line of lines) yield* this.#line(line.endsWith('\r') ? line.slice(0, -1) : line);
  }

  *#line(line) {
    if (line === '') {
      if (this.#data.length > 0) yield { type: this.#type || 'message', data: this.#data.join('\n') };
      this.#type = '';
      this.#data = [];
      return;
    }
    const colon = line.indexOf(':');
    const field = colon < 0 ? line : line.slice(0, colon);
    const value = colon < 0 ? '' : line.slice(colon + 1).replace(/^ /, '');
    if (field === 'event') this.#type = value;
    if (field === 'data') this.#data.push(value);
  }
}

// The rows of a sequence on the screen. Only those in sight are elements, so 32,768 tokens cost no more than a hundred.

/** @typedef {import("./sequence.js").Row} Row */

/** The height of a row, which page.css gives to .line, too. */
const rowHeight = 22;

/** How many rows beyond those in sight are elements, on each side. */
const spare = 12;

/**
 * @typedef {object} Look how rows look and what they do
 * @property {(element: HTMLElement, token: number) => void} paint gives a token its classes and colour
 * @property {(row: Row) => HTMLElement} head makes the head of a block
 */

/** Lines shows rows in an element that scrolls. */
export class Lines {
  /**
   * @param {HTMLElement} scroller
   * @param {{point: (token: number | null) => void, choose: (token: number) => void, resize: (columns: number) => void}} on
   */
  constructor(scroller, on) {
    this.scroller = scroller;
    this.space = scroller.appendChild(document.createElement("div"));
    this.view = this.space.appendChild(document.createElement("div"));
    this.space.className = "lines-space";
    this.view.className = "lines-view";
    /** @type {Row[]} */
    this.rows = [];
    /** @type {Int32Array} */
    this.at = new Int32Array(0);
    /** @type {Look | null} */
    this.look = null;
    /** @type {Map<number, HTMLElement>} */
    this.elements = new Map();
    this.cursor = -1;
    this.width = this.measure();
    const token = (event) => {
      const of = /** @type {HTMLElement} */ (event.target).dataset.token;
      return of === undefined ? null : Number(of);
    };
    scroller.addEventListener("scroll", () => this.draw(), { passive: true });
    scroller.addEventListener("mouseover", (event) => on.point(token(event)));
    scroller.addEventListener("mouseleave", () => on.point(null));
    scroller.addEventListener("click", (event) => {
      const chosen = token(event);
      if (chosen !== null) on.choose(chosen);
    });
    this.observer = new ResizeObserver(() => {
      on.resize(this.columns());
      this.draw();
    });
    this.observer.observe(scroller);
  }

  /** measure returns the width of a character. */
  measure() {
    const probe = this.view.appendChild(document.createElement("span"));
    probe.className = "line";
    probe.style.right = "auto";
    probe.style.padding = probe.style.border = "0";
    probe.textContent = "0".repeat(100);
    const width = probe.getBoundingClientRect().width / 100;
    probe.remove();
    return width || 8;
  }

  /** columns returns how many characters a row has room for. */
  columns() { return Math.max(16, Math.floor((this.scroller.clientWidth - 24) / this.width)); }

  end() { this.observer.disconnect(); }

  /** show shows other rows, or the same ones with another look. @param {{rows: Row[], at: Int32Array}} layout @param {Look} look */
  show(layout, look) {
    const top = this.topToken();
    const moved = layout.rows !== this.rows, head = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset.block;
    this.rows = layout.rows;
    this.at = layout.at;
    this.look = look;
    this.space.style.height = this.rows.length * rowHeight + "px";
    this.elements.clear();
    this.view.replaceChildren();
    if (moved && top >= 0 && top < this.at.length) this.scroller.scrollTop = this.at[top] * rowHeight;
    this.draw();
    const same = head !== undefined && this.view.querySelector(`[data-block="${head}"]`);
    if (same) /** @type {HTMLElement} */ (same).focus({ preventScroll: true });
  }

  /** topToken returns the first token of the first row in sight, or −1. */
  topToken() {
    for (let i = Math.floor(this.scroller.scrollTop / rowHeight); i < this.rows.length && this.scroller.scrollTop > 0; i++) {
      const pieces = this.rows[i].pieces;
      if (pieces && pieces.length) return pieces[0].token;
    }
    return -1;
  }

  /** inSight returns the first row in sight and the one after the last. */
  inSight() {
    const first = Math.floor(this.scroller.scrollTop / rowHeight);
    return [first, Math.min(this.rows.length, first + Math.ceil(this.scroller.clientHeight / rowHeight) + 1)];
  }

  draw() {
    const look = this.look;
    if (!look) return;
    const [first, end] = this.inSight(), from = Math.max(0, first - spare), to = Math.min(this.rows.length, end + spare);
    for (const [index, element] of this.elements) {
      if (index >= from && index < to) continue;
      element.remove();
      this.elements.delete(index);
    }
    /** @type {HTMLElement | null} */
    let before = null;
    for (let index = to - 1; index >= from; index--) {
      let element = this.elements.get(index);
      if (!element) {
        element = this.element(this.rows[index], look);
        element.style.transform = `translateY(${index * rowHeight}px)`;
        this.elements.set(index, element);
        this.view.insertBefore(element, before);
      }
      before = element;
    }
  }

  /** @param {Row} row @param {Look} look */
  element(row, look) {
    if (!row.pieces) return look.head(row);
    const element = document.createElement("div");
    element.className = "line in-" + (row.block.role || "none");
    for (const piece of row.pieces) {
      const span = document.createElement("span");
      span.dataset.token = String(piece.token);
      span.textContent = piece.text;
      look.paint(span, piece.token);
      if (piece.token === this.cursor) span.classList.add("cursor");
      element.append(span);
    }
    return element;
  }

  /** move marks a token and brings it in sight. @param {number} token @param {boolean} [middle] */
  move(token, middle) {
    this.view.querySelectorAll(".cursor").forEach((e) => e.classList.remove("cursor"));
    this.cursor = token;
    this.view.querySelectorAll(`[data-token="${token}"]`).forEach((e) => e.classList.add("cursor"));
    const top = this.at[token] * rowHeight, height = this.scroller.clientHeight;
    if (middle) this.scroller.scrollTop = top - height / 3;
    else if (top < this.scroller.scrollTop + rowHeight) this.scroller.scrollTop = top - rowHeight;
    else if (top + 2 * rowHeight > this.scroller.scrollTop + height) this.scroller.scrollTop = top + 2 * rowHeight - height;
    this.draw();
  }

  /** beside returns the token that is n rows below another, about as far from the left. @param {number} token @param {number} n */
  beside(token, n) {
    const of = (row) => row.pieces && row.pieces.length ? row.pieces : null;
    let row = this.at[token];
    const place = (of(this.rows[row]) || []).findIndex((p) => p.token === token);
    for (row += n; row >= 0 && row < this.rows.length; row += Math.sign(n)) {
      const pieces = of(this.rows[row]);
      if (pieces) return pieces[Math.min(Math.max(0, place), pieces.length - 1)].token;
    }
    return token;
  }
}

// Preact, its hooks and htm in one module; html`…` makes elements.
import { Component, createContext, h, render } from "./core.js";
import htm from "./htm.js";

export * from "./hooks.js";
export { Component, createContext, h, render };
export const html = htm.bind(h);

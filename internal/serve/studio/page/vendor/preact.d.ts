// What the page uses of vendor/preact.js.
type Dependencies = readonly unknown[];
export type Node_ = any;
export function html(strings: TemplateStringsArray, ...values: unknown[]): Node_;
export function h(type: unknown, props: unknown, ...children: unknown[]): Node_;
export function render(node: Node_, parent: Element): void;
export class Component<P = any, S = any> {
  props: P;
  state: S;
  constructor(props?: P);
  setState(state: Partial<S> | ((before: S) => Partial<S>)): void;
  forceUpdate(): void;
  render(props: P, state: S): Node_;
}
export function useState<T>(initial: T | (() => T)): [T, (next: T | ((before: T) => T)) => void];
export function useReducer<S, A>(reduce: (state: S, action: A) => S, initial: S): [S, (action: A) => void];
export function useEffect(run: () => void | (() => void), dependencies?: Dependencies): void;
export function useLayoutEffect(run: () => void | (() => void), dependencies?: Dependencies): void;
export function useRef<T>(initial: T): { current: T };
export function useMemo<T>(make: () => T, dependencies: Dependencies): T;
export function useCallback<F extends Function>(f: F, dependencies: Dependencies): F;
export function useErrorBoundary(handle?: (error: Error) => void): [Error | undefined, () => void];

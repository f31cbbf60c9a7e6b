import { useSyncExternalStore } from "react";

/** A value to which components subscribe. */
export class Signal<T> {
  private readonly listeners = new Set<() => void>();
  constructor(private value: T) {}

  get = (): T => this.value;

  set = (value: T): void => {
    if (Object.is(value, this.value)) return;
    this.value = value;
    this.listeners.forEach((tell) => tell());
  };

  subscribe = (tell: () => void): (() => void) => {
    this.listeners.add(tell);
    return () => this.listeners.delete(tell);
  };

  use(): T {
    return useSyncExternalStore(this.subscribe, this.get, this.get);
  }
}

import { useEffect, useState } from "react";
import { words } from "../words";
import { Signal } from "../signal";

/** since returns how long ago a time was, as a number of up to two digits and a unit. */
export function since(at: string | number, now: number): string {
  const s = Math.max(0, Math.round((now - new Date(at).getTime()) / 1000));
  if (s < 10) return words.time.now;
  if (s >= 3600) return words.time.ago(s < 86_400 ? `${Math.floor(s / 3600)} h` : `${Math.floor(s / 86_400)} d`);
  return words.time.ago(span(s * 1000));
}

/** exact formats a time in the reader's time zone: 2026-11-23 16:04:59. */
export function exact(at: string): string {
  const t = new Date(at);
  const two = (n: number) => String(n).padStart(2, "0");
  return `${t.getFullYear()}-${two(t.getMonth() + 1)}-${two(t.getDate())} ${two(t.getHours())}:${two(t.getMinutes())}:${two(t.getSeconds())}`;
}

/** span formats a duration in milliseconds: 850 ms, 12 s, 3 min, 2 h 5 min, 4 d. */
export function span(ms: number): string {
  if (ms < 1000) return `${Math.round(ms)} ms`;
  const s = ms / 1000;
  if (s < 10) return `${s.toFixed(1).replace(".0", "")} s`;
  if (s < 60) return `${Math.round(s)} s`;
  const min = Math.floor(s / 60);
  if (min < 60) return `${min} min`;
  const h = Math.floor(min / 60);
  if (h < 24) return min % 60 && h < 5 ? `${h} h ${min % 60} min` : `${h} h`;
  return `${Math.floor(h / 24)} d`;
}

const now = new Signal(Date.now());
let ticks = 0;

/** useSecondsTo counts down to a time in milliseconds: the seconds until then, 0 once it is over. */
export function useSecondsTo(at: number): number {
  const [seconds, set] = useState(() => left(at));
  useEffect(() => {
    set(left(at));
    if (at <= Date.now()) return;
    const timer = setInterval(() => {
      set(left(at));
      if (at <= Date.now()) clearInterval(timer);
    }, 250);
    return () => clearInterval(timer);
  }, [at]);
  return seconds;
}

const left = (at: number): number => Math.max(0, Math.ceil((at - Date.now()) / 1000));

/** useNow returns the current time for "how long ago" texts; it updates every ten seconds. */
export function useNow(): number {
  ticks ||= window.setInterval(() => now.set(Date.now()), 10_000);
  return now.use();
}

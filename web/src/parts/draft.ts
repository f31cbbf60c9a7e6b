import { useCallback, useState } from "react";

/** Text that was typed but not sent; it survives a reload of this tab. */
export function useDraft<T>(name: string, empty: T): [T, (now: T | ((old: T) => T)) => void, () => void] {
  const place = `aloft.draft.${name}`;
  const [value, setValue] = useState<T>(() => {
    try {
      const kept = sessionStorage.getItem(place);
      return kept === null ? empty : (JSON.parse(kept) as T);
    } catch {
      return empty;
    }
  });
  const set = useCallback(
    (now: T | ((old: T) => T)) =>
      setValue((old) => {
        const next = now instanceof Function ? now(old) : now;
        try {
          sessionStorage.setItem(place, JSON.stringify(next));
        } catch {
          // The storage is full, so the text is kept only until the page is
          // closed.
        }
        return next;
      }),
    [place],
  );
  const clear = useCallback(() => {
    sessionStorage.removeItem(place);
    setValue(empty);
  }, [place]);
  return [value, set, clear];
}

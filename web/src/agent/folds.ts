import { createContext, useContext, useState } from "react";

/**
 * Which entries are folded, by key, since invisible rows keep no state. all applies to entries without a
 * state of their own; if it is undefined, each has its default.
 */
export type Folds = { states: Map<string, boolean>; all?: boolean | undefined };

export const FoldContext = createContext<Folds>({ states: new Map() });

export function useFold(key: string, standard: boolean): [boolean, () => void] {
  const { states, all } = useContext(FoldContext);
  const [, again] = useState(0);
  const open = states.get(key) ?? all ?? standard;
  return [
    open,
    () => {
      states.set(key, !open);
      again((n) => n + 1);
    },
  ];
}

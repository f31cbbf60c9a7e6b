import { createContext, useContext, useState } from "react";

/**
 * Which entries are folded, by key. It is stored here because invisible rows have no state. all
 * applies to entries that are not in states; if it is undefined, each entry has its default.
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

import { createContext, useContext, useState } from "react";

/**
 * What is folded and unfolded, by the key of its entry, since rows out of sight are
 * not kept. all applies to entries without a state of their own; undefined leaves each
 * as it is by default.
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

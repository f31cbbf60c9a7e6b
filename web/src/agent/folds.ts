import { createContext, useContext, useState } from "react";

/** What is folded and unfolded, by the key of its entry: rows that are out of sight are not kept. */
export const FoldContext = createContext<Map<string, boolean>>(new Map());

export function useFold(key: string, standard: boolean): [boolean, () => void] {
  const folds = useContext(FoldContext);
  const [, again] = useState(0);
  const open = folds.get(key) ?? standard;
  return [
    open,
    () => {
      folds.set(key, !open);
      again((n) => n + 1);
    },
  ];
}

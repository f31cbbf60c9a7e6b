import { Signal } from "../signal";

/** Whether the dialog for a new agent is open: it opens from anywhere. */
export const spawning = new Signal(false);
export const openSpawn = () => spawning.set(true);
export const closeSpawn = () => spawning.set(false);

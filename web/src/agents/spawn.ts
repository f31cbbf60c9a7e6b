import { Signal } from "../signal";

/** Whether the dialog for a new agent is open. It can be opened from every page. */
export const spawning = new Signal(false);
export const openSpawn = () => spawning.set(true);
export const closeSpawn = () => spawning.set(false);

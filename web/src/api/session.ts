import { Signal } from "../signal";
import type { SignedIn } from "./types";

/**
 * The user who is signed in with this browser, as described by the server. The session itself is a
 * cookie that scripts cannot read. Undefined means that the server has not been asked yet.
 */
export const session = new Signal<SignedIn | undefined>(undefined);

/** Notifies listeners that the session has ended. */
export function ended(): void {
  const { signedIn, ...rest } = session.get() ?? { signedIn: false, password: false, passkey: false };
  if (signedIn) session.set({ passkey: rest.passkey, ...(rest.provider ? { provider: rest.provider } : {}), password: false, signedIn: false });
}

const order = ["viewer", "member", "admin", "owner"];

/** Whether the signed-in user has at least the role. */
export function useMay(role: "member" | "admin" | "owner"): boolean {
  return order.indexOf(session.use()?.user?.role ?? "") >= order.indexOf(role);
}

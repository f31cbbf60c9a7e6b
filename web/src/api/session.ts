import { Signal } from "../signal";
import type { SignedIn } from "./types";

/**
 * Who has signed in with this browser. The session itself is a cookie that no
 * script can read; here is only what the server says of it. Undefined is that
 * the server has not been asked yet.
 */
export const session = new Signal<SignedIn | undefined>(undefined);

/** Says that the session has ended, whoever found out. */
export function ended(): void {
  const { signedIn, ...rest } = session.get() ?? { signedIn: false, password: false, passkey: false };
  if (signedIn) session.set({ passkey: rest.passkey, ...(rest.provider ? { provider: rest.provider } : {}), password: false, signedIn: false });
}

const order = ["viewer", "member", "admin", "owner"];

/** Whether who has signed in may do what needs the role. */
export function useMay(role: "member" | "admin" | "owner"): boolean {
  return order.indexOf(session.use()?.user?.role ?? "") >= order.indexOf(role);
}

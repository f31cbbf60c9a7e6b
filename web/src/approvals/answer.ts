import { useState } from "react";
import { refreshAgents } from "../agents/store";
import type { Client } from "../api/client";
import type { Approval, Decision } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { toast } from "../parts/toast";
import { words } from "../words";
import { refreshApprovals } from "./store";

/** Answers a question, and reports whether the answer counts. */
export async function give(client: Client, a: Approval, decision: Decision, message = ""): Promise<boolean> {
  try {
    await client.answer(a, decision, decision === "deny" ? message.trim() : "");
    toast(decision === "deny" ? words.approval.denied(a.tool) : words.approval.allowed(a.tool));
    return true;
  } catch (e) {
    toast(asFailure(e).message, true); // that somebody else was faster, say
    return false;
  } finally {
    refreshApprovals();
    refreshAgents();
  }
}

/** useAnswer answers, and says while it does. */
export function useAnswer() {
  const client = useClient();
  const [busy, setBusy] = useState(false);
  const answer = async (a: Approval, decision: Decision, message?: string): Promise<boolean> => {
    setBusy(true);
    const counts = await give(client, a, decision, message);
    setBusy(false);
    return counts;
  };
  return { answer, busy };
}

import { useState } from "react";
import { refreshAgents } from "../store/agents";
import type { Client } from "../api/client";
import type { Approval, Decision, QuestionAnswer } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { toast } from "../parts/toast";
import { words } from "../words";
import { kindOf } from "./kind";
import { refreshApprovals } from "./store";

/** The data sent with a decision: a message for the agent, and answers to its questions. */
export type Words = { message?: string; answers?: QuestionAnswer[] };

/** Answers a request, and reports whether the answer was accepted. */
export async function give(client: Client, a: Approval, decision: Decision, { message = "", answers = [] }: Words = {}): Promise<boolean> {
  const heard = decision === "deny" || decision === "answer";
  try {
    await client.answer(a, { decision, ...(heard && message.trim() ? { message: message.trim() } : {}), ...(answers.length > 0 ? { answers } : {}) });
    toast(words.approval.said[kindOf(a)](decision, a.tool));
    return true;
  } catch (e) {
    toast(asFailure(e).message, true); // for example because somebody else has answered already
    return false;
  } finally {
    refreshApprovals();
    refreshAgents();
  }
}

/** A hook that answers a request and reports whether it is being sent. */
export function useAnswer() {
  const client = useClient();
  const [busy, setBusy] = useState(false);
  const answer = async (a: Approval, decision: Decision, words?: Words): Promise<boolean> => {
    setBusy(true);
    const counts = await give(client, a, decision, words);
    setBusy(false);
    return counts;
  };
  return { answer, busy };
}

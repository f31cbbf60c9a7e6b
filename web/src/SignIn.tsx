import { useState, type FormEvent } from "react";
import { Problem } from "./parts/State";
import { session } from "./session";
import { words } from "./words";
import { Brand } from "./Shell";

const w = words.signIn;

/** Asks for an API key, and tries it. */
export function SignIn() {
  const [key, setKey] = useState("");
  const [problem, setProblem] = useState("");
  const submit = async (e: FormEvent) => {
    e.preventDefault();
    const text = key.trim();
    try {
      const reply = await fetch("/v1/me", { headers: { Authorization: `Bearer ${text}` }, cache: "no-store" });
      if (reply.status === 401) setProblem(w.refused);
      else session.signIn(text);
    } catch {
      setProblem(words.state.offline);
    }
  };
  return (
    <main className="sign-in">
      <form className="card" onSubmit={(e) => void submit(e)}>
        <Brand />
        <h1>{w.title}</h1>
        <p className="muted">{w.lead}</p>
        <div className="field">
          <label htmlFor="key">{w.key}</label>
          <input id="key" className="input mono" type="password" autoComplete="off" spellCheck={false} autoFocus required value={key} onChange={(e) => setKey(e.target.value)} />
          <span className="hint">{w.kept}</span>
        </div>
        {problem && <Problem>{problem}</Problem>}
        <button type="submit" className="button first">
          {w.go}
        </button>
      </form>
    </main>
  );
}

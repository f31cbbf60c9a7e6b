import { useEffect, useRef, useState, type FormEvent } from "react";
import type { SignInRequest } from "../api/types";
import { asFailure, useClient } from "../api/use";
import { Problem } from "../parts/State";
import { ask, declined, hasPasskeys } from "../passkey";
import { go } from "../route";
import { session } from "../api/session";
import { words } from "../words";
import { Brand } from "./Shell";

const w = words.signIn;

/** Returns a parameter from the URL fragment, which browsers never send to a server. */
const behind = (name: string): string => new URLSearchParams(location.hash.slice(1)).get(name) ?? "";

/** Signs a user in: by a link, a passkey, a password, an identity provider, or an API key. */
export default function SignIn() {
  const client = useClient();
  const ways = session.use();
  const [email, setEmail] = useState("");
  const [password, setPassword] = useState("");
  const [key, setKey] = useState("");
  const [byKey, setByKey] = useState(false);
  const [busy, setBusy] = useState(false);
  const [problem, setProblem] = useState(() => (behind("error") ? w.provider.refused : ""));
  const link = useRef(behind("link"));

  const enter = async (how: () => Promise<SignInRequest>, then: "agents" | "account" = "agents") => {
    setBusy(true);
    setProblem("");
    try {
      const now = await client.signIn(await how());
      history.replaceState(null, "", location.pathname); // the link has been used
      if (location.pathname === "/sign-in") go({ page: then });
      session.set(now);
    } catch (e) {
      if (!declined(e)) setProblem(asFailure(e).message);
      setBusy(false);
    }
  };

  useEffect(() => {
    if (!link.current) return;
    const token = link.current;
    link.current = ""; // valid only once, even if this effect runs twice
    void enter(() => Promise.resolve({ link: token }), "account");
    // eslint-disable-next-line react-hooks/exhaustive-deps
  }, []);

  const submit = (e: FormEvent) => {
    e.preventDefault();
    void enter(() => Promise.resolve(byKey ? { key: key.trim() } : { email: email.trim(), password }));
  };
  const byPasskey = () =>
    void enter(async () => {
      const { ceremony, options } = await client.beginPasskeySignIn();
      return { passkey: { ceremony, response: await ask(options) } };
    });

  return (
    <main className="sign-in">
      <form className="card" onSubmit={submit}>
        <Brand />
        <h1>{w.title}</h1>
        {problem && <Problem>{problem}</Problem>}
        {byKey ? (
          <div className="field">
            <label htmlFor="key">{w.key}</label>
            <input id="key" className="input mono" type="password" autoComplete="off" spellCheck={false} autoFocus required value={key} onChange={(e) => setKey(e.target.value)} />
            <span className="hint">{w.keyHint}</span>
          </div>
        ) : (
          <>
            <div className="field">
              <label htmlFor="email">{w.email}</label>
              <input id="email" className="input" type="email" autoComplete="username" autoFocus required value={email} onChange={(e) => setEmail(e.target.value)} />
            </div>
            <div className="field">
              <label htmlFor="password">{w.password}</label>
              <input id="password" className="input" type="password" autoComplete="current-password" required value={password} onChange={(e) => setPassword(e.target.value)} />
            </div>
          </>
        )}
        <button type="submit" className="button first" disabled={busy}>
          {w.go}
        </button>
        {ways?.passkey && hasPasskeys() && !byKey && (
          <button type="button" className="button" disabled={busy} onClick={byPasskey}>
            {w.passkey}
          </button>
        )}
        {ways?.provider && !byKey && (
          <a className="button" href="/v1/session/provider">
            {w.provider.go(ways.provider)}
          </a>
        )}
        <button type="button" className="button quiet" onClick={() => setByKey(!byKey)}>
          {byKey ? w.withPassword : w.withKey}
        </button>
        <p className="muted small">{w.lost}</p>
      </form>
    </main>
  );
}

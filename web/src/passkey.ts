/**
 * Creates and uses passkeys. The server's options and the browser's answers are JSON with bytes in
 * base64url, as WebAuthn Level 3 defines it. Only few browsers can convert this JSON themselves.
 */

type Bytes = Uint8Array<ArrayBuffer>;

export function bytes(text: string): Bytes {
  const raw = atob(text.replaceAll("-", "+").replaceAll("_", "/"));
  return Uint8Array.from(raw, (c) => c.charCodeAt(0));
}

export function text(buffer: ArrayBuffer): string {
  return btoa(String.fromCharCode(...new Uint8Array(buffer))).replaceAll("+", "-").replaceAll("/", "_").replaceAll("=", "");
}

type Descriptor = { id: string; type: "public-key"; transports?: AuthenticatorTransport[] };
type Creation = Omit<PublicKeyCredentialCreationOptions, "challenge" | "user" | "excludeCredentials"> & {
  challenge: string;
  user: { id: string; name: string; displayName: string };
  excludeCredentials?: Descriptor[];
};
type Request = Omit<PublicKeyCredentialRequestOptions, "challenge" | "allowCredentials"> & { challenge: string; allowCredentials?: Descriptor[] };

const described = (all: Descriptor[] = []): PublicKeyCredentialDescriptor[] => all.map((d) => ({ ...d, id: bytes(d.id) }));

/** Whether this browser, at this address, has passkeys. */
export const hasPasskeys = (): boolean => isSecureContext && "PublicKeyCredential" in globalThis;

/** Creates a passkey with the options that the server sent. */
export async function make(options: unknown): Promise<unknown> {
  const o = options as Creation;
  const made = await navigator.credentials.create({
    publicKey: { ...o, challenge: bytes(o.challenge), user: { ...o.user, id: bytes(o.user.id) }, excludeCredentials: described(o.excludeCredentials) },
  });
  const key = made as PublicKeyCredential;
  const answer = key.response as AuthenticatorAttestationResponse;
  return {
    id: key.id, rawId: text(key.rawId), type: key.type, authenticatorAttachment: key.authenticatorAttachment ?? undefined,
    clientExtensionResults: key.getClientExtensionResults(),
    response: {
      clientDataJSON: text(answer.clientDataJSON), attestationObject: text(answer.attestationObject), transports: answer.getTransports(),
    },
  };
}

/** Has a passkey answer the server's challenge. */
export async function ask(options: unknown): Promise<unknown> {
  const o = options as Request;
  const given = await navigator.credentials.get({ publicKey: { ...o, challenge: bytes(o.challenge), allowCredentials: described(o.allowCredentials) } });
  const key = given as PublicKeyCredential;
  const answer = key.response as AuthenticatorAssertionResponse;
  return {
    id: key.id, rawId: text(key.rawId), type: key.type, authenticatorAttachment: key.authenticatorAttachment ?? undefined,
    clientExtensionResults: key.getClientExtensionResults(),
    response: {
      clientDataJSON: text(answer.clientDataJSON), authenticatorData: text(answer.authenticatorData), signature: text(answer.signature),
      userHandle: answer.userHandle ? text(answer.userHandle) : undefined,
    },
  };
}

/** Whether the user has only cancelled the browser's dialog. */
export const declined = (e: unknown): boolean => e instanceof DOMException && (e.name === "NotAllowedError" || e.name === "AbortError");

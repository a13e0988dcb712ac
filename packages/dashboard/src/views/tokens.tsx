import type { TokenResult } from "holdfast/admin";
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import { AdminError, api, messageOf } from "../app/api.js";
import { exact, plural } from "../app/format.js";
import { now } from "../app/now.js";
import { useResource, type Resource } from "../app/resource.js";
import { route, setQuery } from "../app/router.js";
import { act } from "../app/toasts.js";
import { Button } from "../ui/button.js";
import { Confirm } from "../ui/confirm.js";
import { Copy } from "../ui/copy.js";
import { Dialog } from "../ui/dialog.js";
import { SelectField, TextField } from "../ui/field.js";
import { Icon } from "../ui/icon.js";
import { Empty, Pending } from "../ui/page-states.js";
import { Time } from "../ui/time.js";

const ROLES = [
  ["user", "Lists, reads, cancels and retries the jobs of one user."],
  ["viewer", "Reads everything except tokens and the audit log."],
  ["operator", "Also enqueues, changes, retries and cancels jobs, pauses queues and changes schedules."],
  ["admin", "Also deletes jobs, reads the audit log and manages tokens."],
] as const;
type Role = (typeof ROLES)[number][0];
const LIFETIMES = [
  ["30d", "30 days"],
  ["90d", "90 days"],
  ["365d", "1 year"],
  ["", "Never"],
] as const;

type List = Resource<{ tokens: TokenResult[] }>;

export default function Tokens(): JSX.Element {
  const list: List = useResource("tokens", () => api.tokens.list());
  const { query } = route.value;
  const { value: data } = list.data;
  const revoked = data?.tokens.find(({ id }) => id === query.get("revoke"));
  return (
    <>
      <div class="subbar">
        <p class="t2">{data !== undefined && plural(data.tokens.length, "token")}</p>
        <Button class="push" kind="primary" icon="plus" onClick={() => setQuery({ new: "1" })}>
          New token
        </Button>
      </div>
      <section class="card">
        {data === undefined ? (
          <Pending of={list} />
        ) : data.tokens.length === 0 ? (
          <Empty icon="tokens" title="No API tokens yet">
            <p>Authentication is off: only requests from this machine are accepted, and they may do everything.</p>
          </Empty>
        ) : (
          <Table tokens={data.tokens} />
        )}
      </section>
      {query.has("new") && data !== undefined && (
        <NewToken isFirst={data.tokens.length === 0} list={list} onClose={() => setQuery({ new: null })} />
      )}
      {revoked !== undefined && <Revoke token={revoked} list={list} />}
    </>
  );
}

function Table({ tokens }: { tokens: readonly TokenResult[] }): JSX.Element {
  return (
    <div class="table-wrap">
      <table class="table tokens-t">
        <thead class="hide-narrow">
          <tr>
            <th>Name</th>
            <th>Role</th>
            <th class="p2">User</th>
            <th class="fill p2">Created</th>
            <th class="p2">Expires</th>
            <th class="act">
              <span class="sr">Actions</span>
            </th>
          </tr>
        </thead>
        <tbody>
          {tokens.map(({ id, name, role, user, createdAt, expiresAt }) => {
            const isExpired = expiresAt !== null && Date.parse(expiresAt) <= now.value;
            return (
              <tr key={id}>
                <td class="two-n name" title={name}>
                  <bdi class="strong">{name}</bdi>
                </td>
                <td>{role}</td>
                <td class="p2 t2 detail" title={user ?? undefined}>
                  <bdi>{user}</bdi>
                </td>
                <td class="fill p2 t2">
                  <Time at={createdAt} />
                </td>
                <td class={`p2 ${isExpired ? "warn" : "t2"}`}>
                  {expiresAt === null ? "never" : isExpired ? "expired" : <Time at={expiresAt} />}
                </td>
                <td class="act">
                  <Button
                    small
                    kind="ghost"
                    class="danger"
                    label={`Revoke ${name}`}
                    onClick={() => setQuery({ revoke: id })}
                  >
                    Revoke…
                  </Button>
                </td>
              </tr>
            );
          })}
        </tbody>
      </table>
    </div>
  );
}

function Revoke({ token: { id, name, role }, list }: { token: TokenResult; list: List }): JSX.Element {
  return (
    <Confirm
      title="Revoke token"
      action="Revoke token"
      danger
      onClose={() => setQuery({ revoke: null })}
      onConfirm={() =>
        act(async () => {
          await api.tokens.revoke({ id });
          await list.reload();
        }, `Revoked ${name}.`)
      }
    >
      <p>
        Programs and sessions that use the token <b dir="auto">{name}</b> ({role}) lose their access at once. This
        cannot be undone.
      </p>
    </Confirm>
  );
}

interface NewTokenProps {
  isFirst: boolean;
  list: List;
  onClose: () => void;
}

function NewToken({ isFirst, list, onClose }: NewTokenProps): JSX.Element {
  const [name, setName] = useState("");
  const [role, setRole] = useState<Role>(isFirst ? "admin" : "viewer");
  const [user, setUser] = useState("");
  const [expiresIn, setExpiresIn] = useState("90d");
  const [errors, setErrors] = useState<Readonly<Record<string, string>>>({});
  const [secret, setSecret] = useState<(TokenResult & { token: string }) | null>(null);
  const create = async (): Promise<void> => {
    try {
      const made = await api.tokens.create({
        name: name.trim(),
        role,
        ...(role === "user" && { user: user.trim() }),
        ...(expiresIn !== "" && { expiresIn }),
      });
      setSecret(made);
      // The first token ends the access without one, so this may be refused.
      void list.reload();
    } catch (error) {
      const issues = error instanceof AdminError ? error.issues : [];
      const found = issues.map(({ path, message }) => [path, message.startsWith(path) ? message : `This ${message}.`]);
      setErrors(found.length > 0 ? Object.fromEntries(found) : { form: messageOf(error) });
    }
  };
  if (secret !== null) return <Secret token={secret} isFirst={isFirst} onClose={onClose} />;
  return (
    <Dialog
      title="New API token"
      onClose={onClose}
      onSubmit={create}
      footer={
        <>
          <span class="grow bad" role="alert">
            {errors["form"]}
          </span>
          <Button onClick={onClose}>Cancel</Button>
          <Button kind="primary" type="submit">
            Create token
          </Button>
        </>
      }
    >
      <div class="stack tightest">
        {isFirst && (
          <div class="note s-failed">
            <Icon name="alert" />
            <span>
              This is the first token. From then on, every request needs one, and this page too. Create one with the
              role admin to keep your access.
            </span>
          </div>
        )}
        <TextField
          id="t-name"
          label="Name"
          hint="Who or what uses it. The audit log shows it."
          error={errors["name"]}
          required
          autofocus
          value={name}
          onText={setName}
        />
        <div class="two-f">
          <SelectField
            id="t-role"
            label="Role"
            aria-describedby="t-role-about"
            options={ROLES.map(([each]) => [each, each])}
            value={role}
            onValue={(value) => setRole(value as Role)}
          />
          <SelectField id="t-expires" label="Expires in" options={LIFETIMES} value={expiresIn} onValue={setExpiresIn} />
        </div>
        <p id="t-role-about" class="t3">
          {ROLES.find(([each]) => each === role)?.[1]}
        </p>
        {role === "user" && (
          <TextField id="t-user" label="User" error={errors["user"]} required value={user} onText={setUser} />
        )}
      </div>
    </Dialog>
  );
}

interface SecretProps {
  token: TokenResult & { token: string };
  isFirst: boolean;
  onClose: () => void;
}

/** The only time that the secret is shown. It is kept nowhere. */
function Secret({ token: { name, token, role, expiresAt }, isFirst, onClose }: SecretProps): JSX.Element {
  return (
    <Dialog
      title={`Token ${name}`}
      onClose={onClose}
      footer={
        <Button kind="primary" onClick={onClose}>
          I have copied it
        </Button>
      }
    >
      <div class="stack tightest">
        <div class="note s-failed">
          <Icon name="alert" />
          <span>
            Copy the token now. It is shown only once: the store has a hash of it.
            {isFirst && " You sign in with it next."}
          </span>
        </div>
        <div class="row secret">
          <code class="codebox any" aria-label="Token">
            {token}
          </code>
          <Copy text={token} label="Copy the token">
            Copy
          </Copy>
        </div>
        <p class="t2">
          Role {role}. {expiresAt === null ? "It never expires." : `It expires on ${exact(Date.parse(expiresAt))}.`}
        </p>
      </div>
    </Dialog>
  );
}

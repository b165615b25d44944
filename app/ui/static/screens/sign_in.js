// The key is typed once and exchanged for a cookie that scripts cannot read.
import { html, useState } from '../html.js';
import { ErrorBox, Field } from '../parts.js';
import { signIn } from '../session.js';

export function SignIn({ onDone }) {
  const [key, setKey] = useState('');
  const [state, setState] = useState({ busy: false, error: null });
  const send = async (event) => {
    event.preventDefault();
    setState({ busy: true, error: null });
    try { await signIn(key.trim()); onDone(); } catch (error) { setState({ busy: false, error }); }
  };
  return html`<main class="sign-in"><form class="card" onSubmit=${send}>
    <div><h1>Hyperplane</h1><p class="lead">Sign in with an API key.</p></div>
    <${Field} label="API key" hint="It is sent once and exchanged for a session of 12 hours. This page does not keep it.">
      ${(input) => html`<input ...${input} type="password" autocomplete="off" required autofocus placeholder="key_….secret" value=${key} onInput=${(event) => setKey(event.target.value)} />`}</${Field}>
    <${ErrorBox} error=${state.error} />
    <button class="primary" disabled=${state.busy || !key.trim()}>Sign in</button>
    <p class="fine">No key yet? On the server: <code>hyperplane keys create --admin</code>, or <code>--scope read</code> for a key that only looks.</p>
  </form></main>`;
}

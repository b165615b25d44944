// A form from a JSON schema: what the API describes can be set, with its descriptions, defaults and limits.
// The value holds only what was set; everything else is the service's default.
import { html, useState } from './html.js';
import { Field, withCode } from './parts.js';

export function resolve(schema, components) {
  if (schema?.$ref) return { ...resolve(components[schema.$ref.split('/').at(-1)], components), ...omit(schema, '$ref') };
  const options = schema?.anyOf;
  if (options?.length === 2 && options.some((one) => one.type === 'null')) {
    const inner = resolve(options.find((one) => one.type !== 'null'), components);
    return { ...inner, ...omit(schema, 'anyOf'), nullable: true, properties: inner.properties };
  }
  return schema || {};
}

function omit(object, name) {
  const { [name]: _, ...rest } = object;
  return rest;
}

// Of a field that takes one value or a list of values: the description of one.
function oneOf(schema, components) {
  const options = (schema.anyOf || []).map((one) => resolve(one, components));
  const list = options.find((one) => one.type === 'array');
  const item = list && resolve(list.items, components);
  return item && (item.enum || ['number', 'integer', 'string'].includes(item.type)) ? item : null;
}

// Of a field that takes a number or a word: the word. Of one that takes a number or something longer: the number.
const wordOf = (schema) => (schema.anyOf || schema.oneOf)?.find((one) => typeof one.const === 'string')?.const;
const countOf = (schema, components) => schema.anyOf?.map((one) => resolve(one, components)).find((one) => ['integer', 'number'].includes(one.type));

function kindOf(schema, components) {
  if (schema.enum) return 'choice';
  if (oneOf(schema, components)) return 'several';
  if (schema.oneOf?.some((one) => one.type === 'number') && wordOf(schema)) return 'mixed';
  if (countOf(schema, components)) return 'count';
  if (schema.type === 'boolean') return 'truth';
  if (schema.type === 'number' || schema.type === 'integer') return 'number';
  if (schema.type === 'string') return 'text';
  if (schema.type === 'object' && schema.properties && Object.keys(schema.properties).length) return 'group';
  return 'json';
}

const titled = (name) => name.replaceAll('_', ' ').replace(/^./, (letter) => letter.toUpperCase());
const shown = (value) => (Array.isArray(value) ? value.map(shown).join(', ') : value === null || value === undefined ? 'none' : typeof value === 'string' ? value : JSON.stringify(value));

// only / skip: which properties are shown. special: a property's own widget, ({value, set, input, error}) => element.
export function SchemaForm({ schema, components, value, onChange, errors = [], only, skip = [], special = {}, path = '' }) {
  const names = (only || Object.keys(schema.properties)).filter((name) => schema.properties[name] && !skip.includes(name));
  const set = (name, next) => {
    const changed = { ...value };
    if (next === undefined) delete changed[name];
    else changed[name] = next;
    onChange(changed);
  };
  return html`<div class="form">${names.map((name) => html`<${Property} key=${name} name=${name} schema=${resolve(schema.properties[name], components)} components=${components}
    value=${value?.[name]} set=${(next) => set(name, next)} errors=${errors} path=${path ? `${path}.${name}` : name} special=${special[name]} />`)}</div>`;
}

function Property({ name, schema, components, value, set, errors, path, special }) {
  const kind = kindOf(schema, components);
  const error = errors.find((one) => one.field === path || (kind !== 'group' && one.field?.startsWith(`${path}.`)))?.detail;
  if (kind === 'group' && !special) {
    return html`<fieldset class="full group"><legend>${titled(name)}</legend>${schema.description && html`<p class="hint">${withCode(schema.description)}</p>`}
      <${SchemaForm} schema=${schema} components=${components} value=${value} errors=${errors} path=${path} onChange=${(next) => set(Object.keys(next).length ? next : undefined)} /></fieldset>`;
  }
  return html`<${Field} label=${titled(name)} hint=${withCode(schema.description)} error=${error}>${(input) => (special ? special({ value, set, input, schema }) : html`<${Widget} kind=${kind} schema=${schema} components=${components} value=${value} set=${set} input=${input} />`)}</${Field}>`;
}

function Widget({ kind, schema, components, value, set, input }) {
  if (kind === 'several') return html`<${Several} item=${oneOf(schema, components)} schema=${schema} value=${value} set=${set} input=${input} />`;
  if (kind === 'mixed') return html`<${Mixed} word=${wordOf(schema)} schema=${schema} value=${value} set=${set} input=${input} />`;
  if (kind === 'count') return html`<${Amount} value=${typeof value === 'number' ? value : undefined} set=${set} input=${input} schema=${{ ...countOf(schema, components), default: typeof schema.default === 'object' ? undefined : schema.default }} />`;
  if (kind === 'choice' || kind === 'truth') {
    const options = kind === 'truth' ? [true, false] : schema.enum;
    const place = options.findIndex((one) => one === value);
    return html`<select ...${input} value=${place < 0 ? '' : String(place)} onChange=${(event) => set(event.target.value === '' ? undefined : options[Number(event.target.value)])}>
      <option value="">default: ${shown(schema.default)}</option>${options.map((one, index) => html`<option value=${String(index)}>${shown(one)}</option>`)}</select>`;
  }
  if (kind === 'number') return html`<${Amount} value=${value} set=${set} input=${input} schema=${schema} />`;
  if (kind === 'text') return html`<input ...${input} type="text" placeholder=${schema.default === null || schema.default === undefined ? 'default' : `default: ${shown(schema.default)}`} value=${value ?? ''} onInput=${(event) => set(event.target.value === '' ? undefined : event.target.value)} />`;
  return html`<${Json} value=${value} set=${set} input=${input} schema=${schema} />`;
}

// The typed text is kept as it is: `0.` on the way to `0.001` must not become `0`.
function Amount({ value, set, input, schema }) {
  const [text, setText] = useState('');
  const isTyped = text !== '' && Number(text) === value;
  const typed = (event) => {
    setText(event.target.value);
    if (event.target.value !== '' || !event.target.validity.badInput) set(event.target.value === '' ? undefined : Number(event.target.value));
  };
  return html`<input ...${input} type="number" step=${schema.type === 'integer' ? '1' : 'any'} min=${schema.minimum ?? schema.exclusiveMinimum} max=${schema.maximum > 1e15 ? null : schema.maximum}
    placeholder=${schema.default === undefined ? 'default' : `default: ${shown(schema.default)}`} value=${isTyped ? text : value ?? ''} onInput=${typed} />`;
}

// A number, or the word that leaves it to the service.
function Mixed({ word, schema, value, set, input }) {
  const [text, setText] = useState(value === undefined ? '' : String(value));
  const typed = (event) => {
    const next = event.target.value.trim();
    setText(event.target.value);
    set(next === '' ? undefined : Number.isFinite(Number(next)) ? Number(next) : next);
  };
  return html`<input ...${input} type="text" list=${`${input.id}-words`} placeholder=${`default: ${shown(schema.default)}; or ${word}`} value=${text} onInput=${typed} /><datalist id=${`${input.id}-words`}><option value=${word}></option></datalist>`;
}

// Several values: ticked if they are words, else typed with commas between them.
function Several({ item, schema, value, set, input }) {
  const chosen = value === undefined ? [] : Array.isArray(value) ? value : [value];
  const [text, setText] = useState(chosen.join(', '));
  if (item.enum) {
    const toggle = (one) => { const next = chosen.includes(one) ? chosen.filter((other) => other !== one) : [...chosen, one]; set(next.length ? next : undefined); };
    return html`<div class="checks" role="group" id=${input.id} aria-describedby=${input['aria-describedby']}>${item.enum.map((one) => html`<label class="check"><input type="checkbox" checked=${chosen.includes(one)} onChange=${() => toggle(one)} /> ${shown(one)}</label>`)}</div>`;
  }
  const typed = (event) => {
    setText(event.target.value);
    const parts = event.target.value.split(',').map((part) => part.trim()).filter(Boolean).map((part) => (item.type === 'string' ? part : Number(part)));
    if (parts.every((part) => typeof part === 'string' || Number.isFinite(part))) set(parts.length ? parts : undefined);
  };
  return html`<input ...${input} type="text" inputmode=${item.type === 'string' ? null : 'decimal'} placeholder=${`default: ${shown(schema.default)}; commas between several`} value=${text} onInput=${typed} />`;
}

// What has no widget of its own is written as JSON; it counts when it can be read.
function Json({ value, set, input, schema }) {
  const [text, setText] = useState(value === undefined ? '' : JSON.stringify(value));
  const [wrong, setWrong] = useState(false);
  const typed = (event) => {
    const next = event.target.value;
    setText(next);
    if (!next.trim()) { setWrong(false); set(undefined); return; }
    try { set(JSON.parse(next)); setWrong(false); } catch { setWrong(true); }
  };
  return html`<textarea ...${input} class="json" rows="1" spellcheck=${false} placeholder=${`JSON; default: ${shown(schema.default)}`} aria-invalid=${wrong ? 'true' : input['aria-invalid']} value=${text} onInput=${typed}></textarea>`;
}

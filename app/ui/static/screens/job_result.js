// What a finished job found, by its type.
import { html } from '../html.js';
import { address } from '../api.js';
import { ChosenC } from '../cv_curve.js';
import { bytes, gap, number, plural } from '../format.js';
import { Card, Stat } from '../parts.js';
import { Decision, MetricsTable, Notices } from './model_parts.js';

export function JobResult({ job, result }) {
  const certificate = result.model_certificate || result.certificate;  // of a search: the certificate is about C
  return html`${result.tuning?.best && html`<${Card} title="How C was chosen"><${ChosenC} tuning=${result.tuning} /></${Card}>`}<${Card} title="Result">
    <div class="stack">
      ${Number.isFinite(certificate?.primal) && html`<dl class="stats"><${Stat} label="Certified gap" value=${gap(certificate.relative_gap)} note=${result.converged ? 'converged' : `not converged: ${result.status}`} tone=${result.converged ? 'good' : ''} />
        <${Stat} label="Objective at most" value=${number(certificate.primal, 6)} /><${Stat} label="Optimum at least" value=${number(certificate.dual_bound, 6)} /></dl>`}
      ${result.matches !== undefined && html`<div class=${`notice ${result.matches === true ? 'good-notice' : result.matches === false ? 'error-notice' : 'warning'}`}><strong>${
        result.matches === true ? 'The certificate is confirmed.' : result.matches === false ? 'The certificate is contradicted.' : 'Nothing is contradicted; the claimed bound is not confirmed.'}</strong>
        <span>Recomputed gap ${gap(result.relative_gap)}.</span></div>`}
      ${result.output && html`<p>${plural(result.predicted, 'row')} predicted, ${number(result.failed)} failed. <a href=${address(`v1/jobs/${job.id}/output`).href}>Download ${result.format} (${bytes(result.output.bytes)})</a></p>`}
      ${result.metrics && html`<${MetricsTable} metrics=${result.metrics.train ? result.metrics : { evaluated: result.metrics }} />`}
      <${Decision} metrics=${result.metrics} threshold=${result.threshold} />
      <${Notices} items=${result.warnings} />
    </div>
  </${Card}>`;
}

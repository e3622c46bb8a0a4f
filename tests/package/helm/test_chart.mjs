// SPDX-License-Identifier: Apache-2.0
// Renders the chart in every form, and checks the result against the schemas and types of Kubernetes.
//   node test_chart.mjs MODULES RENDER ROOT [--write]
// MODULES has what package-lock.json names. RENDER is the program of render.go. --write: writes packaging/kubernetes.
import { execFileSync } from 'node:child_process'
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { createRequire } from 'node:module'
import { join } from 'node:path'
import { isDeepStrictEqual } from 'node:util'

const [modules, render, root, write] = process.argv.slice(2)
const require = createRequire(join(modules, 'package.json'))
const yaml = require('js-yaml')
const chart = join(root, 'packaging/helm/sluice')
const plain = join(root, 'packaging/kubernetes')
const load = path => yaml.load(readFileSync(path, 'utf8'))

// The forms that packaging/kubernetes has, and others.
const directory = { insecure: true }
const bucket = { replicas: 3, store: { kind: 'url', url: 's3://bucket/jobs', existingSecret: 'sluice-bucket' }, tokens: { existingSecret: 'sluice-tokens' } }
const everything = {
  replicas: 2, image: { tag: 'x' }, imagePullSecrets: [{ name: 'registry' }],
  store: { kind: 'url', url: 'redis://redis/0' }, tokens: { existingSecret: 'tokens' }, tls: { existingSecret: 'tls' },
  settings: { SLUICE_LIMITS_PER_CLIENT: 100 }, serviceAccount: { name: 'jobs', annotations: { a: 'b' } },
  serviceMonitor: { enabled: true, labels: { release: 'p' }, tokenSecret: 'scrape', tlsConfig: { insecureSkipVerify: true } },
  podAnnotations: { 'a/b': 'c' }, nodeSelector: { disk: 'ssd' }, tolerations: [{ key: 'k', operator: 'Exists' }],
  affinity: { podAntiAffinity: { preferredDuringSchedulingIgnoredDuringExecution: [{ weight: 1, podAffinityTerm: { topologyKey: 'kubernetes.io/hostname' } }] } },
  topologySpreadConstraints: [{ maxSkew: 1, topologyKey: 'zone', whenUnsatisfiable: 'ScheduleAnyway' }],
}
const volume = { ...directory, store: { storageClass: 'fast', size: '1Ti' }, serviceMonitor: { enabled: true } }

// Kind -> the module with its class, which has a schema, and its type.
const kinds = {
  Deployment: 'kubernetes-models/apps/v1/Deployment', StatefulSet: 'kubernetes-models/apps/v1/StatefulSet',
  Service: 'kubernetes-models/v1/Service', ServiceAccount: 'kubernetes-models/v1/ServiceAccount',
  PodDisruptionBudget: 'kubernetes-models/policy/v1/PodDisruptionBudget',
  ServiceMonitor: '@kubernetes-models/prometheus-operator/monitoring.coreos.com/v1/ServiceMonitor',
  ScaledObject: '@kubernetes-models/keda/keda.sh/v1alpha1/ScaledObject',
}

let count = 0
async function check(title, body) {
  count++
  try {
    await body()
    console.log(`ok ${count} - ${title}`)
  } catch (error) {
    console.log(`not ok ${count} - ${title}`)
    console.log(String(error.stdout || error.stack || error).replace(/^/gm, '# '))
  }
}

function merge(into, from) {
  if (typeof into !== 'object' || into === null || Array.isArray(from)) return from
  const both = { ...into }
  for (const [key, value] of Object.entries(from)) both[key] = key in into ? merge(into[key], value) : value
  return both
}

function rendered(values) {
  const about = load(join(chart, 'Chart.yaml'))
  const input = {
    Values: merge(load(join(chart, 'values.yaml')), values),
    Chart: { Name: about.name, Version: about.version, AppVersion: about.appVersion },
    Release: { Name: 'sluice', Service: 'Helm' },
  }
  const folder = join(chart, 'templates')
  const templates = readdirSync(folder).sort().map(name => join(folder, name))
  return execFileSync(render, templates, { input: JSON.stringify(input), encoding: 'utf8', stdio: 'pipe' })
}

// What a form looks like without Helm.
const plainForm = values => documents(rendered(values).replaceAll('managed-by: Helm', 'managed-by: kubectl')
  .replaceAll(/^ +helm.sh\/chart: .*\n/gm, ''))
const documents = text => yaml.loadAll(text).filter(Boolean)

// The schemas find wrong values and missing fields; the types find unknown fields.
function validate(objects) {
  const folder = mkdtempSync(join(modules, 'types-'))
  try {
    const lines = objects.map((object, i) => {
      const path = kinds[object.kind]
      if (!path) throw new Error(`no schema of the kind ${object.kind}`)
      const { [object.kind]: Kind } = require(path)
      new Kind(object).validate()
      return `import { I${object.kind} as T${i} } from '${path}'\nexport const o${i}: T${i} = ${JSON.stringify(object, null, 1)}\n`
    })
    writeFileSync(join(folder, 'objects.ts'), lines.join('\n'))
    execFileSync(process.execPath, [require.resolve('typescript/lib/tsc.js'), '--noEmit', '--strict', '--skipLibCheck', '--typeRoots', folder,
      '--module', 'commonjs', '--moduleResolution', 'node', '--target', 'es2020', join(folder, 'objects.ts')], { encoding: 'utf8', stdio: 'pipe' })
  } finally {
    rmSync(folder, { recursive: true })
  }
}

function refused(values, words) {
  try {
    rendered(values)
  } catch (error) {
    if (String(error.stderr).includes(words)) return
    throw error
  }
  throw new Error('it was rendered')
}

function expect(what, value, wanted) {
  if (!isDeepStrictEqual(value, wanted)) throw new Error(`${what}: ${JSON.stringify(value)} instead of ${JSON.stringify(wanted)}`)
}

const kindsOf = objects => objects.map(object => object.kind).sort()
const head = '# Made from packaging/helm/sluice by "make manifests". Change the chart, not this file.\n'
const files = { 'directory.yaml': directory, 'bucket.yaml': bucket }

if (write === '--write') {
  for (const [name, values] of Object.entries(files)) {
    const text = plainForm(values).map(object => yaml.dump(object, { lineWidth: 118, noRefs: true })).join('---\n')
    writeFileSync(join(plain, name), head + text)
  }
  process.exit(0)
}

await check('a directory is a StatefulSet of one node with a volume', () => {
  const objects = documents(rendered(directory))
  expect('kinds', kindsOf(objects), ['Service', 'Service', 'ServiceAccount', 'StatefulSet'])
  const set = objects.find(object => object.kind === 'StatefulSet')
  expect('volumes', set.spec.volumeClaimTemplates.map(claim => claim.metadata.name), ['store'])
})
await check('a bucket is a Deployment with a budget', () => {
  expect('kinds', kindsOf(documents(rendered(bucket))), ['Deployment', 'PodDisruptionBudget', 'Service', 'ServiceAccount'])
})
await check('a pod is not root, has a read-only root file system, no capability, and time to drain', () => {
  for (const values of [directory, bucket, everything]) {
    const pod = documents(rendered(values)).find(object => object.spec?.template).spec.template.spec
    expect('user', [pod.securityContext.runAsNonRoot, pod.containers[0].securityContext], [true,
      { allowPrivilegeEscalation: false, readOnlyRootFilesystem: true, capabilities: { drop: ['ALL'] } }])
    const env = Object.fromEntries(pod.containers[0].env.map(variable => [variable.name, variable.value]))
    const seconds = parseInt(env.SLUICE_SHUTDOWN_DRAIN) + parseInt(env.SLUICE_SHUTDOWN_DEADLINE)
    expect('the grace is longer than drain and deadline', pod.terminationGracePeriodSeconds > seconds, true)
  }
})
await check('two nodes of a directory are refused', () => refused({ ...directory, replicas: 2 }, 'exactly one node'))
await check('a node without tokens is refused', () => refused({}, 'tokens.existingSecret'))
await check('a store without URL is refused', () => refused({ ...directory, store: { kind: 'url' } }, 'store.url'))
await check('a monitor without token is refused', () => refused({ ...bucket, serviceMonitor: { enabled: true } }, 'tokenSecret'))
await check('every form fits the schemas and types of Kubernetes', () =>
  validate([directory, bucket, everything, volume].flatMap(values => documents(rendered(values)))))
await check('the check finds an unknown field', () => {
  const [service] = documents(rendered(directory)).filter(object => object.kind === 'Service')
  service.spec.portz = []
  let found = false
  try { validate([service]) } catch (error) { found = String(error.stdout).includes('portz') }
  expect('found', found, true)
})
await check('the check finds a wrong value', () => {
  const [service] = documents(rendered(directory)).filter(object => object.kind === 'Service')
  service.spec.ports[0].port = 'seventy'
  let found = false
  try { validate([service]) } catch (error) { found = String(error).includes('port') }
  expect('found', found, true)
})
await check('packaging/kubernetes has what the chart gives, and examples that fit the schemas', () => {
  validate(readdirSync(plain).flatMap(name => documents(readFileSync(join(plain, name), 'utf8'))))
  for (const [name, values] of Object.entries(files)) {
    expect(name, documents(readFileSync(join(plain, name), 'utf8')), plainForm(values))
  }
})
console.log(`1..${count}`)

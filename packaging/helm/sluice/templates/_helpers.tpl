{{- define "sluice.name" -}}
{{- if contains .Chart.Name .Release.Name -}}
{{- .Release.Name | trunc 52 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-%s" .Release.Name .Chart.Name | trunc 52 | trimSuffix "-" -}}
{{- end -}}
{{- end }}

{{- define "sluice.selector" -}}
app.kubernetes.io/name: sluice
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "sluice.labels" -}}
{{ include "sluice.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "sluice.account" -}}
{{- if .Values.serviceAccount.create -}}
{{- .Values.serviceAccount.name | default (include "sluice.name" .) -}}
{{- else -}}
{{- .Values.serviceAccount.name | default "default" -}}
{{- end -}}
{{- end }}

{{- define "sluice.scheme" -}}
{{- if .Values.tls.existingSecret -}}HTTPS{{- else -}}HTTP{{- end -}}
{{- end }}

{{- /* Mistakes that would be found only when a node does not start, or that lose messages. */ -}}
{{- define "sluice.check" -}}
{{- if not (or .Values.tokens.existingSecret .Values.insecure) -}}
{{- fail "set tokens.existingSecret, or insecure=true if every client that reaches the node may do everything" -}}
{{- end -}}
{{- if eq .Values.store.kind "directory" -}}
{{- if ne (int .Values.replicas) 1 -}}
{{- fail "a directory has exactly one node: set replicas=1, or store.kind=url with a bucket or a Redis server" -}}
{{- end -}}
{{- else if eq .Values.store.kind "url" -}}
{{- if not .Values.store.url -}}
{{- fail "set store.url: s3://bucket/prefix or redis://host/db" -}}
{{- end -}}
{{- else -}}
{{- fail "store.kind is directory or url" -}}
{{- end -}}
{{- if and .Values.serviceMonitor.enabled .Values.tokens.existingSecret (not .Values.serviceMonitor.tokenSecret) -}}
{{- fail "the node has tokens: set serviceMonitor.tokenSecret" -}}
{{- end -}}
{{- end }}

{{- define "sluice.pod" -}}
metadata:
  labels:
    {{- include "sluice.labels" . | nindent 4 }}
  {{- with .Values.podAnnotations }}
  annotations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
spec:
  serviceAccountName: {{ include "sluice.account" . }}
  automountServiceAccountToken: false
  # Kubernetes would set variables such as SLUICE_PORT, and the node reads variables of this form as settings.
  enableServiceLinks: false
  {{- with .Values.imagePullSecrets }}
  imagePullSecrets:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  # Longer than shutdown.drain and shutdown.deadline together.
  terminationGracePeriodSeconds: {{ add (int .Values.shutdown.drainSeconds) (int .Values.shutdown.deadlineSeconds) 30 }}
  securityContext:
    runAsNonRoot: true
    runAsUser: 65532
    runAsGroup: 65532
    fsGroup: 65532
    fsGroupChangePolicy: OnRootMismatch
    seccompProfile:
      type: RuntimeDefault
  containers:
    - name: sluice
      image: "{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}"
      imagePullPolicy: {{ .Values.image.pullPolicy }}
      args:
        - serve
        {{- if .Values.insecure }}
        - --insecure
        {{- end }}
      env:
        - name: POD_NAME
          valueFrom:
            fieldRef:
              fieldPath: metadata.name
        - name: POD_IP
          valueFrom:
            fieldRef:
              fieldPath: status.podIP
        - name: SLUICE_NODE
          value: $(POD_NAME)
        - name: SLUICE_LISTEN
          value: ":7333"
        - name: SLUICE_ADVERTISE
          value: {{ lower (include "sluice.scheme" .) }}://$(POD_IP):7333
        - name: SLUICE_STORE
          value: {{ if eq .Values.store.kind "directory" }}file:///var/lib/sluice/store{{ else }}{{ .Values.store.url | quote }}{{ end }}
        - name: SLUICE_SHUTDOWN_DRAIN
          value: {{ .Values.shutdown.drainSeconds }}s
        - name: SLUICE_SHUTDOWN_DEADLINE
          value: {{ .Values.shutdown.deadlineSeconds }}s
        {{- if .Values.tokens.existingSecret }}
        - name: SLUICE_TOKENS
          value: /etc/sluice/tokens/tokens
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: SLUICE_TLS_CERTIFICATE
          value: /etc/sluice/tls/tls.crt
        - name: SLUICE_TLS_KEY
          value: /etc/sluice/tls/tls.key
        {{- end }}
        {{- range $name, $value := .Values.settings }}
        - name: {{ $name }}
          value: {{ $value | quote }}
        {{- end }}
      {{- with .Values.store.existingSecret }}
      envFrom:
        - secretRef:
            name: {{ . }}
      {{- end }}
      ports:
        - name: http
          containerPort: 7333
      # A start waits for the store, and for the journal of each queue.
      startupProbe:
        httpGet:
          path: /healthz
          port: http
          scheme: {{ include "sluice.scheme" . }}
        periodSeconds: 2
        failureThreshold: 150
      # Never /readyz: a store that fails is not repaired by a restart.
      livenessProbe:
        httpGet:
          path: /healthz
          port: http
          scheme: {{ include "sluice.scheme" . }}
        periodSeconds: 10
        timeoutSeconds: 5
        failureThreshold: 6
      readinessProbe:
        httpGet:
          path: /readyz
          port: http
          scheme: {{ include "sluice.scheme" . }}
        periodSeconds: 2
        timeoutSeconds: 5
      securityContext:
        allowPrivilegeEscalation: false
        readOnlyRootFilesystem: true
        capabilities:
          drop: [ALL]
      {{- with .Values.resources }}
      resources:
        {{- toYaml . | nindent 8 }}
      {{- end }}
      volumeMounts:
        - name: tmp
          mountPath: /tmp
        {{- if eq .Values.store.kind "directory" }}
        - name: store
          mountPath: /var/lib/sluice
        {{- end }}
        {{- if .Values.tokens.existingSecret }}
        - name: tokens
          mountPath: /etc/sluice/tokens
          readOnly: true
        {{- end }}
        {{- if .Values.tls.existingSecret }}
        - name: tls
          mountPath: /etc/sluice/tls
          readOnly: true
        {{- end }}
  volumes:
    - name: tmp
      emptyDir:
        sizeLimit: 64Mi
    {{- with .Values.tokens.existingSecret }}
    - name: tokens
      secret:
        secretName: {{ . }}
    {{- end }}
    {{- with .Values.tls.existingSecret }}
    - name: tls
      secret:
        secretName: {{ . }}
    {{- end }}
  {{- with .Values.nodeSelector }}
  nodeSelector:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.tolerations }}
  tolerations:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.affinity }}
  affinity:
    {{- toYaml . | nindent 4 }}
  {{- end }}
  {{- with .Values.topologySpreadConstraints }}
  topologySpreadConstraints:
    {{- toYaml . | nindent 4 }}
  {{- end }}
{{- end }}

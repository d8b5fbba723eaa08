{{- /* The name of the objects in the namespace. */ -}}
{{- define "millrace.name" -}}
{{ .Values.fullnameOverride | default .Release.Name }}
{{- end }}

{{- define "millrace.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "millrace.labels" -}}
{{ include "millrace.selector" . }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ .Chart.Name }}-{{ .Chart.Version | replace "+" "_" }}
{{- end }}

{{- /* What values say about pods. */ -}}
{{- define "millrace.pod" -}}
terminationGracePeriodSeconds: {{ .Values.terminationGracePeriodSeconds }}
securityContext:
  {{- toYaml .Values.podSecurityContext | nindent 2 }}
{{- with .Values.topologySpreadConstraints }}
topologySpreadConstraints:
{{- range . }}
- {{ merge (deepCopy .) (dict "labelSelector" (dict "matchLabels" (include "millrace.selector" $ | fromYaml))) | toYaml | nindent 2 | trim }}
{{- end }}
{{- end }}
{{- range $field := list "imagePullSecrets" "nodeSelector" "tolerations" "affinity" "priorityClassName" }}
{{- with index $.Values $field }}
{{ $field }}:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}
{{- end }}

{{- /* What values say about the container. */ -}}
{{- define "millrace.container" -}}
image: {{ .Values.image.repository }}{{ with .Values.image.tag }}:{{ . }}{{ end }}
imagePullPolicy: {{ .Values.image.pullPolicy }}
securityContext:
  {{- toYaml .Values.securityContext | nindent 2 }}
resources:
  {{- toYaml .Values.resources | nindent 2 }}
{{- with .Values.probes }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- define "replica.account" -}}
{{ .Values.serviceAccount | default (include "millrace.name" .) }}
{{- end }}

{{- /* The beginning of the names of the objects of the cluster. */ -}}
{{- define "replica.clusterName" -}}
{{ .Release.Namespace }}-{{ include "millrace.name" . }}
{{- end }}

{{/* The name of all objects. */}}
{{- define "berth.fullname" -}}
{{- if .Values.fullnameOverride -}}
{{- .Values.fullnameOverride -}}
{{- else if contains "berth" .Release.Name -}}
{{- .Release.Name | trunc 53 | trimSuffix "-" -}}
{{- else -}}
{{- printf "%s-berth" (.Release.Name | trunc 47 | trimSuffix "-") -}}
{{- end -}}
{{- end }}

{{/* What the pods are selected by. It never changes in a release. */}}
{{- define "berth.selector" -}}
app.kubernetes.io/name: berth
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.labels" -}}
{{ include "berth.selector" . }}
app.kubernetes.io/component: scheduler
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{/* The same for the shadow. */}}
{{- define "berth.shadowSelector" -}}
app.kubernetes.io/name: berth-shadow
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "berth.shadowLabels" -}}
{{ include "berth.shadowSelector" . }}
app.kubernetes.io/component: shadow
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
helm.sh/chart: {{ printf "%s-%s" .Chart.Name .Chart.Version }}
{{- end }}

{{- define "berth.serviceAccount" -}}
{{- if .Values.serviceAccount.name -}}
{{- .Values.serviceAccount.name -}}
{{- else if .Values.serviceAccount.create -}}
{{- include "berth.fullname" . -}}
{{- else -}}
{{- fail "serviceAccount.name: must name a service account, as serviceAccount.create is false" -}}
{{- end -}}
{{- end }}

{{- define "berth.image" -}}
{{- if .Values.image.digest -}}
{{- printf "%s@%s" .Values.image.repository .Values.image.digest -}}
{{- else -}}
{{- printf "%s:%s" .Values.image.repository (.Values.image.tag | default .Chart.AppVersion) -}}
{{- end -}}
{{- end }}

{{/* The name and the namespace of the lease. */}}
{{- define "berth.leaseName" -}}
{{- dig "leaderElection" "resourceName" "" .Values.config | default (include "berth.fullname" .) -}}
{{- end }}
{{- define "berth.leaseNamespace" -}}
{{- dig "leaderElection" "resourceNamespace" "" .Values.config | default .Release.Namespace -}}
{{- end }}
{{- define "berth.elects" -}}
{{- if ne (dig "leaderElection" "leaderElect" true .Values.config) false -}}true{{- end -}}
{{- end }}

{{/* The configuration file. */}}
{{- define "berth.config" -}}
{{- $election := dict "leaderElect" true "resourceName" (include "berth.leaseName" .) "resourceNamespace" (include "berth.leaseNamespace" .) -}}
{{- $config := deepCopy .Values.config -}}
{{- $_ := set $config "leaderElection" (mergeOverwrite $election (dig "leaderElection" dict .Values.config)) -}}
{{- $_ = set $config "apiVersion" "kubescheduler.config.k8s.io/v1" -}}
{{- $_ = set $config "kind" "KubeSchedulerConfiguration" -}}
{{- toYaml $config -}}
{{- end }}

{{/* Fails unless every profile disables the plugins that need a part of the rules that is left out. It takes the root, the part, and the plugins. */}}
{{- define "berth.mustBeDisabled" -}}
{{- $root := .root -}}
{{- $part := .part -}}
{{- range $plugin := .plugins -}}
  {{- range $i, $profile := $root.Values.config.profiles -}}
    {{- $off := false -}}
    {{- range dig "plugins" "multiPoint" "disabled" list $profile -}}
      {{- if has .name (list $plugin "*") -}}{{- $off = true -}}{{- end -}}
    {{- end -}}
    {{- range $point, $set := dig "plugins" dict $profile -}}
      {{- range dig "enabled" list $set -}}
        {{- if eq .name $plugin -}}{{- $off = false -}}{{- end -}}
      {{- end -}}
    {{- end -}}
    {{- if not $off -}}
      {{- fail (printf "rbac.rules.%s: is false, but config.profiles[%d] (%s) enables %s, which needs these rules; disable it under plugins.multiPoint.disabled, or set the value to true" $part $i (dig "schedulerName" "default-scheduler" $profile) $plugin) -}}
    {{- end -}}
  {{- end -}}
{{- end -}}
{{- if and $root.Values.config.extenders (has $part (list "volumes" "devices")) -}}
  {{- fail (printf "rbac.rules.%s: is false, but config.extenders is set, and pods are tried again for extenders when volumes or claims change; set the value to true" $part) -}}
{{- end -}}
{{- end }}

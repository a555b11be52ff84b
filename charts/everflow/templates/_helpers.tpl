{{- define "everflow.ownLabels" -}}
app.kubernetes.io/name: everflow
app.kubernetes.io/instance: {{ .Release.Namespace }}
app.kubernetes.io/part-of: flux
app.kubernetes.io/version: {{ .Chart.AppVersion }}
{{- end }}

{{- /* Metadata of an object: root, name, and where it has them namespace and further labels. */ -}}
{{- define "everflow.metadata" -}}
name: {{ .name }}
{{- with .namespace }}
namespace: {{ . }}
{{- end }}
labels:
  {{- include "everflow.ownLabels" .root | nindent 2 }}
  {{- with .labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
  {{- with .root.Values.labels }}
  {{- toYaml . | nindent 2 }}
  {{- end }}
{{- with .root.Values.annotations }}
annotations:
  {{- toYaml . | nindent 2 }}
{{- end }}
{{- end }}

{{- define "everflow.image" -}}
{{- $image := .Values.image -}}
{{- $image.full | default (printf "%s/everflow:%s" $image.registry ($image.tag | default .Chart.AppVersion)) -}}
{{- end }}

{{- /* The name of the Deployment of a shard; the main one has none. */ -}}
{{- define "everflow.shardName" -}}
{{- if . }}everflow-{{ . }}{{ else }}everflow{{ end -}}
{{- end }}

{{- /* The kinds that are worked on, for root and shard; nothing for all of them. */ -}}
{{- define "everflow.kinds" -}}
{{- $components := .root.Values.components -}}
{{- $kinds := list -}}
{{- $count := 0 -}}
{{- if has "source-controller" $components }}
{{- $kinds = concat $kinds (list "GitRepository" "OCIRepository" "HelmRepository" "HelmChart" "Bucket") }}
{{- $count = add1 $count }}
{{- end }}
{{- if has "kustomize-controller" $components }}
{{- $kinds = append $kinds "Kustomization" }}
{{- $count = add1 $count }}
{{- end }}
{{- if has "helm-controller" $components }}
{{- $kinds = append $kinds "HelmRelease" }}
{{- $count = add1 $count }}
{{- end }}
{{- if and (has "notification-controller" $components) (not .shard) }}
{{- $kinds = append $kinds "Receiver" }}
{{- $count = add1 $count }}
{{- end }}
{{- if lt (int $count) 4 }}{{ join "," $kinds }}{{ end -}}
{{- end }}

{{- define "everflow.args" -}}
{{- $values := .root.Values -}}
{{- $domain := trimSuffix "." $values.clusterDomain -}}
{{- $notifies := has "notification-controller" $values.components -}}
{{- $service := "source-controller" -}}
{{- if .shard }}{{ $service = printf "source-controller-%s" .shard }}{{ end -}}
- run
- --storage-path=/data
- --storage-adv-addr={{ $service }}.$(RUNTIME_NAMESPACE).svc.{{ $domain }}.
- --metrics-addr=:8080
- --health-addr=:9440
- --log-level={{ $values.logLevel }}
- --log-encoding=json
- --enable-leader-election
- --api-endpoints-file=/etc/everflow/api/endpoints
{{- with include "everflow.kinds" . }}
- --only={{ . }}
{{- end }}
{{- if and .shard $notifies }}
- --events-addr=http://notification-controller.$(RUNTIME_NAMESPACE).svc.{{ $domain }}./
{{- end }}
{{- if $values.sharding.shards }}
{{- if .shard }}
- --watch-label-selector={{ $values.sharding.key }}={{ .shard }}
{{- else }}
- --watch-label-selector=!{{ $values.sharding.key }}
{{- end }}
{{- end }}
{{- if not $values.watchAllNamespaces }}
- --watch-namespace=$(RUNTIME_NAMESPACE)
{{- end }}
{{- if $values.multitenant.enabled }}
- --no-cross-namespace-refs
- --default-service-account={{ $values.multitenant.defaultServiceAccount }}
{{- end }}
{{- if $values.concurrent }}
- --concurrent={{ $values.concurrent | int }}
{{- end }}
{{- with $values.requeueDependency }}
- --requeue-dependency={{ . }}
{{- end }}
{{- with $values.leaderElection.leaseDuration }}
- --leader-election-lease-duration={{ . }}
{{- end }}
{{- with $values.leaderElection.renewDeadline }}
- --leader-election-renew-deadline={{ . }}
{{- end }}
{{- with $values.leaderElection.retryPeriod }}
- --leader-election-retry-period={{ . }}
{{- end }}
{{- with $values.extraArgs }}
{{ toYaml . }}
{{- end }}
{{- end }}

{{- /* Amounts without those that are empty. */ -}}
{{- define "everflow.amounts" -}}
{{- $amounts := dict -}}
{{- range $name, $amount := . }}
{{- if $amount }}{{ $_ := set $amounts $name $amount }}{{ end }}
{{- end }}
{{- toYaml $amounts -}}
{{- end }}

The commands of deploy/replica/README.md that move agents and bring them back.

-- agents
kubectl apply -f agents.yaml

-- one agent
kubectl set env daemonset/agent KUBERNETES_SERVICE_HOST=replica.millrace-replica.svc KUBERNETES_SERVICE_PORT=443
kubectl get daemonset agent -o jsonpath='{.spec.template.spec.containers[*].env}'
kubectl rollout status daemonset/agent --timeout=90s | tail -n 1

-- one agent back
kubectl set env daemonset/agent KUBERNETES_SERVICE_HOST- KUBERNETES_SERVICE_PORT-
kubectl get daemonset agent -o jsonpath='{.spec.template.spec.containers[*].env}'

-- namespace
kubectl set env --all deployments,daemonsets,statefulsets,cronjobs KUBERNETES_SERVICE_HOST=replica.millrace-replica.svc KUBERNETES_SERVICE_PORT=443
kubectl get deployment,statefulset,daemonset,cronjob -o yaml | grep -c 'value: replica.millrace-replica.svc'

-- namespace back
kubectl set env --all deployments,daemonsets,statefulsets,cronjobs KUBERNETES_SERVICE_HOST- KUBERNETES_SERVICE_PORT-
kubectl get deployment,statefulset,daemonset,cronjob -o yaml | grep -c KUBERNETES_SERVICE_HOST; true
kubectl delete -f agents.yaml --wait --timeout=60s

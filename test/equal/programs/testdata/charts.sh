Helm: the charts of deploy/charts. Files that they share with other manifests come with the
packages.

-- package
helm package deploy/charts/millrace-replica deploy/charts/millrace

-- install
helm install replica millrace-replica-0.1.0.tgz --set nodeSelector.side=$SIDE --wait --timeout=90s &&
helm install server millrace-0.1.0.tgz --set nodeSelector.side=$SIDE --set 'etcd.servers={https://etcd.example:2379}' --wait --timeout=90s

-- what is there sorted
kubectl get deployments,statefulsets,services,serviceaccounts,configmaps,poddisruptionbudgets,horizontalpodautoscalers,networkpolicies -l 'app.kubernetes.io/instance in (replica,server)' -o name
kubectl get clusterroles,clusterrolebindings -o name | grep "$SIDE-replica-"
kubectl get clusterrole "$SIDE-replica-follow" -o jsonpath='{.rules}'

-- upgrade sorted
helm upgrade replica millrace-replica-0.1.0.tgz --reuse-values --set feed=etcd,impersonation=true,autoscaling.enabled=false,networkPolicy.enabled=false --set 'etcd.servers={https://etcd.example:2379}' --wait --timeout=90s &&
helm upgrade server millrace-0.1.0.tgz --reuse-values --set replicas=2,flags.rebalance-watches=null --wait --timeout=90s &&
kubectl get deployment replica -o jsonpath='{.spec.replicas}{.spec.template.spec.containers[0].args}' &&
kubectl get statefulset server -o jsonpath='{.spec.replicas}{.spec.template.spec.containers[0].command}' &&
kubectl get horizontalpodautoscalers,networkpolicies -l app.kubernetes.io/instance=replica -o name &&
kubectl get clusterroles,clusterrolebindings -o name | grep "$SIDE-replica-"

-- upgrade that is wrong status=1
helm upgrade replica millrace-replica-0.1.0.tgz --reuse-values --set 'folow={pods}'

-- rollback
helm rollback replica 1 --wait --timeout=90s
kubectl get clusterrole "$SIDE-replica-follow" -o name

-- uninstall
helm uninstall replica server --wait --timeout=90s
kubectl wait --for=delete pods,replicasets,controllerrevisions,endpointslices -l 'app.kubernetes.io/instance in (replica,server)' --timeout=60s > waited 2>&1
left=$(kubectl get deployments,statefulsets,replicasets,controllerrevisions,pods,services,endpointslices,serviceaccounts,configmaps,poddisruptionbudgets,horizontalpodautoscalers,networkpolicies -l 'app.kubernetes.io/instance in (replica,server)' -o name
    kubectl get secrets -l owner=helm -o name
    kubectl get clusterroles,clusterrolebindings -o name | grep "$SIDE-replica-")
echo "left: $left"; test -z "$left"

Helm: a chart with a hook, which asks for an object of the cluster. What `helm status` lists
has no order.

-- install
helm install mill ./chart --set side=$SIDE --wait --timeout=90s
kubectl get deployment mill -o jsonpath='{.status.readyReplicas}'
kubectl get configmap mill -o jsonpath='{.data}'

-- install again status=1
helm install mill ./chart --set side=$SIDE

-- upgrade
helm upgrade mill ./chart --set side=$SIDE,image=two --wait --timeout=90s
helm list
helm history mill
helm get values mill

-- upgrade that is wrong status=1
helm upgrade mill ./chart --set side=$SIDE,replicas=many

-- rollback sorted
helm rollback mill 1 --wait --timeout=90s
helm status mill
kubectl get configmap mill -o jsonpath='{.data.image}'

-- template at the server
helm template again ./chart --set side=$SIDE --dry-run=server

-- uninstall
helm uninstall mill --wait --timeout=90s
helm list
kubectl get deployment,configmap mill --ignore-not-found

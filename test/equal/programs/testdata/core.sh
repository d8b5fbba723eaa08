What CI runs: one use of each way in which kubectl and a server talk.

-- apply
kubectl apply -f web.yaml -f settings.yaml

-- rollout
kubectl rollout status deployment/web --timeout=90s | tail -n 1

-- tables
kubectl get deployments,replicasets,pods,services,configmaps -o wide --show-labels

-- wait for a condition sorted
kubectl wait --for=condition=Ready pod -l app=web --timeout=60s

-- follow a log to its end
kubectl logs -f deployment/web -c main 2>/dev/null

-- exec with input and status status=3
printf 'one\ntwo\n' | kubectl exec -i deployment/web -c main -- sh -c 'cat; echo mistake >&2; exit 3'

-- copy there and back
seq 100000 > numbers
pod=$(kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}')
kubectl cp numbers "$pod:copied" -c main && kubectl cp "$pod:copied" back -c main && cmp numbers back && wc -c < back

-- edit and diff status=1
KUBE_EDITOR='sed -i s/blue/green/' kubectl edit configmap settings
KUBECTL_EXTERNAL_DIFF='diff -r' kubectl diff -f changed.yaml

-- conflict of appliers status=1
kubectl apply --server-side -f settings.yaml
kubectl apply --server-side --field-manager=other -f changed.yaml

-- watch
: > watched; kubectl get configmaps --watch --output=name >> watched & watcher=$!
n=0; until grep -q settings watched || [ $n = 300 ]; do n=$((n+1)); sleep 0.1; done
kubectl create configmap fresh --from-literal=a=1 && kubectl label configmap fresh tier=high && kubectl delete configmap fresh --wait
n=0; until [ "$(grep -c fresh watched)" -ge 3 ] || [ $n = 300 ]; do n=$((n+1)); sleep 0.1; done
kill $watcher; grep -v root-ca watched

-- rights
kubectl auth can-i create pods --subresource=exec

-- explain
kubectl explain deployment.spec.strategy.rollingUpdate.maxSurge

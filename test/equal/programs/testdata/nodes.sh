What reaches into nodes and pods, and takes pods away from nodes.

-- exec
kubectl exec deployment/web -c main -- sh -c 'echo out; echo err >&2'
printf 'in' | kubectl exec -i deployment/web -c main -- cat

-- exec over SPDY status=5
printf 'in\n' | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl exec -i deployment/web -c main -- sh -c 'cat; echo mistake >&2; exit 5'

-- command that is missing status=1
kubectl exec deployment/web -c main -- no-such-program

-- exec in a container that is missing status=1
kubectl exec deployment/web -c none -- true

-- attach
pod=$(kubectl get pods -l app=web -o name | head -n 1)
printf 'hello\n' | kubectl attach -i $pod -c main 2>/dev/null
printf 'hello\n' | KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl attach -i $pod -c main 2>/dev/null
kubectl attach $pod -c main </dev/null 2>/dev/null

-- copy a directory
mkdir -p tree/inner && seq 1000 > tree/inner/numbers && echo a > tree/a
pod=$(kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}')
kubectl cp tree "$pod:tree" -c main
kubectl exec $pod -c main -- tar cf - tree | tar tf - | sort
kubectl cp "$pod:tree" again -c main && diff -r tree again && echo same

-- copy what is missing
kubectl cp "$(kubectl get pods -l app=web -o jsonpath='{.items[0].metadata.name}'):nothing" none -c main >/dev/null 2>&1 # kubectl may cut the message of tar
ls none 2>/dev/null; true

-- run
kubectl run once --image=done --restart=Never
kubectl wait --for=jsonpath='{.status.phase}'=Succeeded pod/once --timeout=60s
kubectl run asked --image=one --overrides='{"spec":{"nodeSelector":{"side":"'$SIDE'"}}}'
kubectl wait --for=condition=Ready pod/asked --timeout=60s
kubectl debug asked --image=tools --attach=false -c helper
kubectl get pod asked -o jsonpath='{.spec.ephemeralContainers[*].name}'
kubectl delete pod once asked --wait

-- cordon and taint
kubectl cordon node-1.$SIDE
kubectl get node node-1.$SIDE
kubectl taint node node-1.$SIDE colour=blue:NoSchedule
kubectl taint node node-1.$SIDE colour-
kubectl uncordon node-1.$SIDE

-- budget
kubectl rollout status deployment/web --timeout=90s | tail -n 1
kubectl apply -f budget.yaml
kubectl wait --for=jsonpath='{.status.currentHealthy}'=2 pdb/web --timeout=60s
kubectl get pdb web

-- drain that the budget forbids sorted status=1
kubectl drain node-1.$SIDE --ignore-daemonsets --timeout=3s

-- drain
kubectl patch pdb web --type=merge -p '{"spec":{"minAvailable":1}}'
kubectl wait --for=jsonpath='{.status.disruptionsAllowed}'=1 pdb/web --timeout=60s
kubectl drain node-1.$SIDE --ignore-daemonsets --force --delete-emptydir-data --timeout=90s 2>&1 | sort
kubectl get pods --field-selector=spec.nodeName=node-1.$SIDE -o name
kubectl uncordon node-1.$SIDE
kubectl rollout status deployment/web --timeout=90s | tail -n 1
kubectl delete pdb web

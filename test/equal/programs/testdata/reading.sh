Verbs that read.

-- forms of output
kubectl get configmap settings -o yaml
kubectl get configmap settings -o json
kubectl get configmap settings -o jsonpath='{.data.colour}'
kubectl get configmap settings -o go-template='{{.metadata.name}}'
kubectl get pods -o custom-columns=NAME:.metadata.name,PHASE:.status.phase
kubectl get pods --sort-by=.metadata.name -o name
kubectl get pods --no-headers

-- all sorted
kubectl get all

-- selection
kubectl get pods -l app=web,app!=none
kubectl get pods --field-selector=status.phase=Running
kubectl get pods -l app=web --field-selector=spec.nodeName=node-1.$SIDE -o name
kubectl get configmaps --chunk-size=1 -o name
kubectl get nodes -l side=$SIDE -o wide
kubectl get nodes -l side=$SIDE --show-labels --no-headers
kubectl get namespaces $SIDE
kubectl get clusterroles -o name
kubectl get apiservices
kubectl get priorityclasses,flowschemas

-- what is missing status=1
kubectl get configmap none

-- unknown resource status=1
kubectl get nonsense

-- selector that is wrong status=1
kubectl get pods --field-selector=spec.nonsense=1

-- raw
kubectl get --raw /version
kubectl get --raw /api/v1/namespaces/$SIDE/configmaps/settings
kubectl get --raw /apis/apps/v1
kubectl get --raw /openapi/v3 | head -c 300
kubectl get --raw /.well-known/openid-configuration | sed 's/"jwks_uri":"[^"]*//' # which names the upstream

-- raw node
kubectl get --raw /api/v1/nodes/node-1.$SIDE/proxy/healthz

-- raw path that is missing status=1
kubectl get --raw /apis/none/v1

-- describe sorted
kubectl describe deployment web
kubectl describe pods -l app=web
kubectl describe service web
kubectl describe configmap settings
kubectl describe namespace $SIDE
kubectl describe node node-1.$SIDE | grep -v -e MemoryPressure -e cpu -e memory

-- events sorted
kubectl events --for deployment/web --types=Normal | sed 's/.*Deployment/Deployment/'
kubectl get events --field-selector=involvedObject.kind=Deployment,involvedObject.name=web -o jsonpath='{.items[*].reason}'

-- documents
kubectl api-resources
kubectl api-resources --namespaced=false --verbs=list -o name
kubectl api-versions
kubectl explain pod.spec --recursive
kubectl explain cronjobs --api-version=batch/v1 --output=plaintext-openapiv2
kubectl version
kubectl cluster-info

-- top status=1
kubectl top pods

-- watch of a table
timeout 3 kubectl get configmaps settings --watch
timeout 3 kubectl get configmaps --watch-only
kubectl get configmaps settings -o name --watch-only --request-timeout=2s; true

-- logs
kubectl logs deployment/web -c main
kubectl logs deployment/web -c main --tail=1 --timestamps
kubectl logs -l app=web -c main --prefix --tail=2 | sort
kubectl logs deployment/web -c main --since=1h --limit-bytes=10

-- logs of nobody status=1
kubectl logs deployment/web -c nobody

-- dump
kubectl cluster-info dump --namespaces=$SIDE --output-directory=dump >/dev/null && ls dump dump/$SIDE

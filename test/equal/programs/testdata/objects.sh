Verbs that make, change and delete objects.

-- create
kubectl create configmap made --from-literal=a=1 --dry-run=client -o yaml
kubectl create configmap made --from-literal=a=1 --dry-run=server -o yaml
kubectl create configmap made --from-literal=a=1
kubectl create secret generic hidden --from-literal=password=p
kubectl create quota limit --hard=configmaps=50
kubectl create role reader --verb=get,list --resource=pods
kubectl create deployment bare --image=one --replicas=0
kubectl create job done --image=done --dry-run=server -o name

-- create again status=1
kubectl create configmap made --from-literal=a=1

-- apply again and prune
kubectl apply -f settings.yaml -f web.yaml
kubectl apply -f changed.yaml --prune --prune-allowlist=core/v1/ConfigMap -l tier=low
kubectl apply view-last-applied configmap settings
kubectl apply set-last-applied -f settings.yaml
KUBE_EDITOR=true kubectl apply edit-last-applied configmap settings

-- apply at the server
kubectl apply --server-side --force-conflicts -f settings.yaml
kubectl apply --server-side --field-manager=other -f changed.yaml
kubectl apply --server-side --field-manager=other --force-conflicts -f changed.yaml
kubectl get configmap settings -o yaml --show-managed-fields

-- replace
kubectl replace -f settings.yaml
kubectl replace --force -f settings.yaml
kubectl get configmap settings -o jsonpath='{.data}'

-- label and annotate
kubectl label configmap settings tier=high --overwrite
kubectl label configmap settings tier=low # is refused
kubectl annotate configmap settings note=hello
kubectl annotate configmap settings note-
kubectl label configmaps --all seen=yes
kubectl get configmaps -l seen=yes,tier=high -o name

-- patch
kubectl patch configmap settings --type=merge -p '{"data":{"size":"small"}}'
kubectl patch configmap settings --type=json -p '[{"op":"remove","path":"/data/size"}]'
kubectl patch deployment web -p '{"spec":{"minReadySeconds":0}}'
kubectl patch deployment web --subresource=scale --type=merge -p '{"spec":{"replicas":1}}'
kubectl get deployment web --subresource=scale -o jsonpath='{.spec.replicas}'

-- patch that is wrong status=1
kubectl patch deployment web --type=merge -p '{"spec":{"replicas":"many"}}' 2>refusal; status=$?
tail -c 110 refusal; exit $status

-- scale
kubectl scale deployment web --replicas=2 --current-replicas=1
kubectl rollout status deployment/web --timeout=90s | tail -n 1

-- scale what has another size status=1
kubectl scale deployment web --replicas=3 --current-replicas=7

-- images and history
kubectl set image deployment/web main=two
kubectl rollout status deployment/web --timeout=90s | tail -n 1
kubectl annotate deployment web kubernetes.io/change-cause=two
kubectl rollout history deployment/web
kubectl rollout undo deployment/web
kubectl rollout status deployment/web --timeout=90s | tail -n 1
kubectl rollout pause deployment/web
kubectl rollout resume deployment/web
kubectl rollout restart deployment/web
kubectl rollout status deployment/web --timeout=90s | tail -n 1
kubectl set env deployment/bare COLOUR=blue
kubectl set resources deployment/bare --limits=cpu=1
kubectl set serviceaccount deployment bare default
kubectl get deployment bare -o jsonpath='{.spec.template.spec.containers[0].env}'

-- services and scaling
kubectl expose deployment bare --port=80 --name=exposed
kubectl autoscale deployment bare --min=1 --max=3 --cpu=50%
kubectl get service exposed -o jsonpath='{.spec.ports}'
kubectl get hpa bare -o jsonpath='{.spec.maxReplicas}'

-- jobs
kubectl apply -f job.yaml
kubectl wait --for=condition=Complete job/sum --timeout=90s
kubectl wait --for=jsonpath='{.status.succeeded}'=2 job/sum --timeout=60s
kubectl get jobs sum -o jsonpath='{.status.succeeded}'

-- custom resources
kubectl apply -f looms.yaml
kubectl wait --for=condition=Established crd/looms.$SIDE.example.com --timeout=60s
n=0; until kubectl get looms.$SIDE.example.com >/dev/null 2>&1 || [ $n = 60 ]; do n=$((n+1)); sleep 0.5; done
kubectl apply -f loom.yaml
kubectl get looms.$SIDE.example.com
kubectl scale looms.$SIDE.example.com one --replicas=5
kubectl patch looms.$SIDE.example.com one --subresource=status --type=merge -p '{"status":{"conditions":[{"type":"Ready","status":"True"}]}}'
kubectl wait --for=condition=Ready looms.$SIDE.example.com/one --timeout=30s
kubectl api-resources --api-group=$SIDE.example.com
kubectl explain looms.$SIDE.example.com.spec.cloth
kubectl get looms.$SIDE.example.com one -o yaml

-- custom resource that is wrong status=1
kubectl patch looms.$SIDE.example.com one --type=merge -p '{"spec":{"cloth":"lead"}}'

-- delete
kubectl delete configmap made
kubectl delete configmap made --ignore-not-found
kubectl delete deployment bare --cascade=foreground --wait --timeout=60s
kubectl delete job sum --cascade=orphan
kubectl get pods -l batch.kubernetes.io/job-name=sum -o name
kubectl delete pods -l batch.kubernetes.io/job-name=sum --wait
kubectl delete looms.$SIDE.example.com --all
kubectl delete -f looms.yaml --wait --timeout=60s
kubectl get deployment,job -o name

-- wait for deletion
kubectl create configmap brief
(sleep 0.5; kubectl delete configmap brief >/dev/null) & kubectl wait --for=delete configmap/brief --timeout=60s >/dev/null; wait # it may be gone before

-- delete what is missing status=1
kubectl delete configmap made

-- namespaces
kubectl create namespace $SIDE-brief
kubectl -n $SIDE-brief create configmap held
kubectl -n $SIDE-brief create deployment held --image=one
kubectl delete namespace $SIDE-brief --wait --timeout=90s
kubectl get namespace $SIDE-brief --ignore-not-found

Rights, and users with certificates, with tokens, by impersonation and with none.

-- who am I
kubectl auth whoami
kubectl auth can-i --list | sort
kubectl auth can-i get pods --subresource=log
kubectl auth can-i '*' '*'

-- agent
kubectl apply -f agent.yaml
kubectl auth reconcile -f rights.yaml
cp $KUBECONFIG agent.kubeconfig
kubectl --kubeconfig=agent.kubeconfig config set-credentials agent --token=$(kubectl create token agent) >/dev/null
kubectl --kubeconfig=agent.kubeconfig config set-context --current --user=agent >/dev/null
n=0; until kubectl --kubeconfig=agent.kubeconfig get pods >/dev/null 2>&1 || [ $n = 60 ]; do n=$((n+1)); sleep 0.5; done
kubectl --kubeconfig=agent.kubeconfig auth whoami
kubectl --kubeconfig=agent.kubeconfig auth can-i --list | sort
kubectl --kubeconfig=agent.kubeconfig get pods,configmaps
kubectl --kubeconfig=agent.kubeconfig logs deployment/web -c main 2>/dev/null
kubectl --kubeconfig=agent.kubeconfig logs $(kubectl get pods -l app=web -o name | head -n 1) -c main

-- agent writes status=1
kubectl --kubeconfig=agent.kubeconfig create configmap none

-- agent runs a command status=1
kubectl --kubeconfig=agent.kubeconfig exec $(kubectl get pods -l app=web -o name | head -n 1) -c main -- true

-- agent runs a command over SPDY status=1
KUBECTL_REMOTE_COMMAND_WEBSOCKETS=false kubectl --kubeconfig=agent.kubeconfig exec $(kubectl get pods -l app=web -o name | head -n 1) -c main -- true

-- agent reads secrets status=1
kubectl --kubeconfig=agent.kubeconfig get secrets

-- as another user impersonates
kubectl --as=system:serviceaccount:$SIDE:agent get configmap settings -o name &&
kubectl --as=system:serviceaccount:$SIDE:agent auth whoami &&
kubectl --as=jane --as-group=system:masters --as-uid=7 auth whoami &&
kubectl --as=jane --as-group=system:masters exec deployment/web -c main -- echo hello

-- as another user without rights impersonates status=1
kubectl --as=jane get configmaps

-- nobody status=1
kubectl --kubeconfig=agent.kubeconfig config set-credentials nobody --token=nonsense >/dev/null
kubectl --kubeconfig=agent.kubeconfig --user=nobody get configmaps

-- certificates
openssl req -newkey rsa:2048 -nodes -keyout key -subj /O=weavers/CN=jane-$SIDE -out csr 2>/dev/null
kubectl apply -f - <<END
apiVersion: certificates.k8s.io/v1
kind: CertificateSigningRequest
metadata: {name: jane-$SIDE}
spec: {request: $(base64 -w0 < csr), signerName: kubernetes.io/kube-apiserver-client, usages: [client auth]}
END
kubectl certificate approve jane-$SIDE
kubectl wait --for=jsonpath='{.status.certificate}' csr/jane-$SIDE --timeout=60s
kubectl get csr jane-$SIDE -o jsonpath='{.status.certificate}' | base64 -d > certificate
kubectl --kubeconfig=agent.kubeconfig config set-credentials jane --client-certificate=certificate --client-key=key >/dev/null
kubectl --kubeconfig=agent.kubeconfig --user=jane auth whoami | sed 's,X509SHA256=.*,HASH,'
kubectl create rolebinding jane --clusterrole=edit --user=jane-$SIDE
n=0; until kubectl --kubeconfig=agent.kubeconfig --user=jane get pods >/dev/null 2>&1 || [ $n = 60 ]; do n=$((n+1)); sleep 0.5; done
kubectl --kubeconfig=agent.kubeconfig --user=jane get pods,configmaps
kubectl --kubeconfig=agent.kubeconfig --user=jane exec deployment/web -c main -- echo hello
kubectl --kubeconfig=agent.kubeconfig --user=jane create configmap of-jane

-- certificate without rights status=1
kubectl --kubeconfig=agent.kubeconfig --user=jane get nodes

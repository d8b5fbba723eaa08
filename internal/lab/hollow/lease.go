package hollow

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/conn/watchclient"
	"github.com/millrace/millrace/internal/wire/watchevent"
)

const (
	leaseResource  = "coordination.k8s.io/v1/leases"
	leaseNamespace = "kube-node-lease"
	leasesPath     = "/apis/coordination.k8s.io/v1/namespaces/" + leaseNamespace + "/leases"
	leaseSeconds   = 40
)

// leaseBody returns the encoded lease of the node, renewed now.
func (n *node) leaseBody() ([]byte, error) {
	n.mu.Lock()
	uid := n.mu.uid
	revision := n.mu.leaseRevision
	n.mu.Unlock()
	seconds := int32(leaseSeconds)
	now := metav1.NewMicroTime(time.Now())
	return encodeProtobuf("coordination.k8s.io/v1", "Lease", &coordinationv1.Lease{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.name, Namespace: leaseNamespace, ResourceVersion: revision, Labels: n.labels(),
			OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: uid}},
		},
		Spec: coordinationv1.LeaseSpec{HolderIdentity: &n.name, LeaseDurationSeconds: &seconds, RenewTime: &now},
	})
}

// ensureLease reads the node's lease, or creates it. It returns false if it must be tried again.
func (n *node) ensureLease(ctx context.Context) bool {
	answer, err := n.kubelet.call(ctx, n.fleet.writes.getLease,
		&watchclient.Request{Method: "GET", URI: leasesPath + "/" + n.name, Accept: acceptProtobuf})
	switch {
	case err != nil:
		return false
	case answer.OK():
		return n.takeLease(answer)
	case answer.Status != 404:
		return false
	}
	n.mu.Lock()
	n.mu.leaseRevision = ""
	n.mu.Unlock()
	body, err := n.leaseBody()
	if err != nil {
		n.fleet.writes.createLease.recordFailure(err.Error())
		return false
	}
	answer, err = n.kubelet.call(ctx, n.fleet.writes.createLease,
		&watchclient.Request{Method: "POST", URI: leasesPath, Accept: acceptProtobuf, Type: typeProtobuf, Body: body})
	return err == nil && answer.OK() && n.takeLease(answer)
}

// takeLease notes the revision of the lease in an answer. It returns false if there is none.
func (n *node) takeLease(answer *watchclient.Answer) bool {
	revision := watchevent.Field(watchevent.Field(watchevent.Unwrap(answer.Body), 1), 6)
	n.mu.Lock()
	defer n.mu.Unlock()
	n.mu.leaseRevision = string(revision)
	return len(revision) > 0
}

// renewPeriodically renews the lease, and schedules its next call.
func (n *node) renewPeriodically() {
	ok := n.renewOnce()
	pause := n.random.choose(renewEvery)
	n.mu.Lock()
	defer n.mu.Unlock()
	if ok {
		n.mu.failures = 0
	} else {
		pause = n.retryPause(n.mu.failures)
		n.mu.failures++
	}
	n.scheduleLocked("lease", pause, n.renewPeriodically)
}

// renewOnce renews the lease. If somebody has deleted or changed the lease, it reads or creates
// the lease instead.
func (n *node) renewOnce() bool {
	ctx := n.fleet.ctx
	body, err := n.leaseBody()
	if err != nil {
		n.fleet.writes.renewLease.recordFailure(err.Error())
		return false
	}
	answer, err := n.kubelet.call(ctx, n.fleet.writes.renewLease,
		&watchclient.Request{Method: "PUT", URI: leasesPath + "/" + n.name, Accept: acceptProtobuf, Type: typeProtobuf, Body: body})
	switch {
	case err != nil:
		return false
	case answer.OK():
		return n.takeLease(answer)
	case answer.Status == 404 || answer.Status == 409:
		return n.ensureLease(ctx)
	}
	return false
}

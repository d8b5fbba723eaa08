package hollow

import (
	"context"
	"fmt"
	"time"

	corev1 "k8s.io/api/core/v1"
	storagev1 "k8s.io/api/storage/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	"github.com/millrace/millrace/internal/conn/watchclient"
)

// podAddress returns an address of the node's range for pods, 10.x.y.0/24.
func (n *node) podAddress(last int) string {
	return fmt.Sprintf("10.%d.%d.%d", n.index>>8&255, n.index&255, last)
}

// hostAddress returns the node's own address.
func (n *node) hostAddress() string {
	return fmt.Sprintf("172.%d.%d.%d", 16+n.index>>16&15, n.index>>8&255, n.index&255)
}

func (n *node) labels() map[string]string { return map[string]string{Label: n.fleet.cfg.Name} }

// object returns the Node that the kubelet registers.
func (n *node) object() *corev1.Node {
	labels := n.labels()
	labels["kubernetes.io/hostname"], labels["kubernetes.io/os"], labels["kubernetes.io/arch"] = n.name, "linux", "amd64"
	labels["node.kubernetes.io/instance-type"] = "hollow"
	labels["topology.kubernetes.io/zone"] = "zone-" + string("abc"[n.index%3])
	resources := func(memory string) corev1.ResourceList {
		return corev1.ResourceList{
			corev1.ResourceCPU: resource.MustParse("32"), corev1.ResourceMemory: resource.MustParse(memory),
			corev1.ResourceEphemeralStorage: resource.MustParse("500Gi"), corev1.ResourcePods: *resource.NewQuantity(maxPods, resource.DecimalSI),
		}
	}
	return &corev1.Node{
		ObjectMeta: metav1.ObjectMeta{
			Name: n.name, Labels: labels,
			Annotations: map[string]string{"node.alpha.kubernetes.io/ttl": "0", "volumes.kubernetes.io/controller-managed-attach-detach": "true"},
		},
		Spec: corev1.NodeSpec{PodCIDR: n.podAddress(0) + "/24", PodCIDRs: []string{n.podAddress(0) + "/24"}, ProviderID: "hollow://" + n.name},
		Status: corev1.NodeStatus{
			Capacity: resources("128Gi"), Allocatable: resources("124Gi"), Conditions: nodeConditions(time.Now(), false),
			Addresses: []corev1.NodeAddress{{Type: corev1.NodeInternalIP, Address: n.hostAddress()},
				{Type: corev1.NodeHostName, Address: n.name}},
			DaemonEndpoints: corev1.NodeDaemonEndpoints{KubeletEndpoint: corev1.DaemonEndpoint{Port: 10250}},
			NodeInfo: corev1.NodeSystemInfo{
				MachineID: fmt.Sprintf("%032x", n.index), SystemUUID: fmt.Sprintf("%032x", n.index), BootID: fmt.Sprintf("%032x", n.index),
				KernelVersion: "6.12.0-cloud-amd64", OSImage: "Hollow", ContainerRuntimeVersion: "containerd://2.1.4",
				KubeletVersion: "v1.37.2", OperatingSystem: "linux", Architecture: "amd64",
			},
			Images: nodeImages(),
		},
	}
}

// nodeImages returns a list of images that gives Nodes a realistic size.
func nodeImages() []corev1.ContainerImage {
	const count = 20
	images := make([]corev1.ContainerImage, count)
	for i := range images {
		name := fmt.Sprintf("registry.example.com/app-%02d", i)
		images[i] = corev1.ContainerImage{Names: []string{fmt.Sprintf("%s@sha256:%064x", name, i), name + ":1.0.0"},
			SizeBytes: int64(40_000_000 + i*911_003)}
	}
	return images
}

// nodeConditions returns the conditions of a healthy node. Before the node is ready, its
// container runtime is reported as not ready.
func nodeConditions(now time.Time, ready bool) []corev1.NodeCondition {
	heartbeat := metav1.NewTime(now)
	condition := func(kind corev1.NodeConditionType, status corev1.ConditionStatus, reason, message string) corev1.NodeCondition {
		return corev1.NodeCondition{Type: kind, Status: status, Reason: reason, Message: message, LastHeartbeatTime: heartbeat,
			LastTransitionTime: heartbeat}
	}
	conditions := []corev1.NodeCondition{
		condition(corev1.NodeMemoryPressure, corev1.ConditionFalse, "KubeletHasSufficientMemory", "kubelet has sufficient memory available"),
		condition(corev1.NodeDiskPressure, corev1.ConditionFalse, "KubeletHasNoDiskPressure", "kubelet has no disk pressure"),
		condition(corev1.NodePIDPressure, corev1.ConditionFalse, "KubeletHasSufficientPID", "kubelet has sufficient PID available"),
	}
	if ready {
		return append(conditions, condition(corev1.NodeReady, corev1.ConditionTrue, "KubeletReady", "kubelet is posting ready status"))
	}
	return append(conditions, condition(corev1.NodeReady, corev1.ConditionFalse, "KubeletNotReady",
		"container runtime status check may not have completed yet"))
}

// registerCSI creates the CSINode, without drivers. It returns false if it must be tried again.
func (n *node) registerCSI(ctx context.Context) bool {
	n.mu.Lock()
	uid := n.mu.uid
	n.mu.Unlock()
	object := &storagev1.CSINode{ObjectMeta: metav1.ObjectMeta{
		Name: n.name, Labels: n.labels(), OwnerReferences: []metav1.OwnerReference{{APIVersion: "v1", Kind: "Node", Name: n.name, UID: uid}},
	}}
	body, err := encodeProtobuf("storage.k8s.io/v1", "CSINode", object)
	if err != nil {
		n.fleet.writes.csiNode.recordFailure(err.Error())
		return false
	}
	answer, err := n.kubelet.call(ctx, n.fleet.writes.csiNode, &watchclient.Request{
		Method: "POST", URI: "/apis/storage.k8s.io/v1/csinodes", Accept: acceptProtobuf, Type: typeProtobuf, Body: body,
	})
	return err == nil && (answer.OK() || answer.Status == 409)
}

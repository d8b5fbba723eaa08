package fill

import (
	"fmt"
	"strconv"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	"k8s.io/apimachinery/pkg/util/intstr"
)

const tokenMountPath = "/var/run/secrets/kubernetes.io/serviceaccount"

// podSpec returns a spec that includes all fields that defaulting and admission
// would add. So a pod written to etcd equals a pod written through a server.
func (g *Generator) podSpec(app int, shape podShape) corev1.PodSpec {
	grace := int64(30)
	priority := int32(0)
	seconds := int64(300)
	links := true
	preemption := corev1.PreemptLowerPriority
	tolerate := func(taint string) corev1.Toleration {
		return corev1.Toleration{
			Key: taint, Operator: corev1.TolerationOpExists,
			Effect: corev1.TaintEffectNoExecute, TolerationSeconds: &seconds,
		}
	}
	spec := corev1.PodSpec{
		RestartPolicy:                 corev1.RestartPolicyAlways,
		TerminationGracePeriodSeconds: &grace,
		DNSPolicy:                     corev1.DNSClusterFirst,
		ServiceAccountName:            "default",
		DeprecatedServiceAccount:      "default",
		SecurityContext:               &corev1.PodSecurityContext{},
		SchedulerName:                 corev1.DefaultSchedulerName,
		Priority:                      &priority,
		PreemptionPolicy:              &preemption,
		EnableServiceLinks:            &links,
	}
	if shape.level >= levelBare {
		spec.Tolerations = []corev1.Toleration{tolerate(corev1.TaintNodeNotReady), tolerate(corev1.TaintNodeUnreachable)}
	}
	if shape.level < levelTypical {
		no := false
		spec.AutomountServiceAccountToken = &no
	}
	spec.Volumes = g.podVolumes(app, shape)
	for n := range shape.containers() {
		spec.Containers = append(spec.Containers, g.container(app, n, shape, spec.Volumes))
	}
	return spec
}

// container returns container n of an application. It mounts all volumes from levelTypical on.
func (g *Generator) container(app, n int, shape podShape, volumes []corev1.Volume) corev1.Container {
	image, _ := g.image(app, n)
	c := corev1.Container{
		Name:                     "app",
		Image:                    image,
		ImagePullPolicy:          corev1.PullIfNotPresent,
		Env:                      g.environment(app, n, shape),
		TerminationMessagePath:   corev1.TerminationMessagePathDefault,
		TerminationMessagePolicy: corev1.TerminationMessageReadFile,
		Resources: corev1.ResourceRequirements{
			Requests: corev1.ResourceList{
				corev1.ResourceCPU:    resource.MustParse("100m"),
				corev1.ResourceMemory: resource.MustParse("128Mi"),
			},
		},
	}
	if n > 0 {
		c.Name = "sidecar-" + strconv.Itoa(n)
	}
	if shape.level >= levelManaged {
		c.Ports = []corev1.ContainerPort{{Name: "http-" + strconv.Itoa(n), ContainerPort: int32(8080 + n), Protocol: corev1.ProtocolTCP}}
	}
	if shape.level < levelTypical {
		return c
	}
	c.Resources.Limits = corev1.ResourceList{
		corev1.ResourceCPU:    resource.MustParse("1"),
		corev1.ResourceMemory: resource.MustParse("512Mi"),
	}
	c.LivenessProbe = probe("/healthz", 8080+n)
	c.ReadinessProbe = probe("/readyz", 8080+n)
	for _, volume := range volumes {
		mount := corev1.VolumeMount{Name: volume.Name, MountPath: "/etc/" + volume.Name}
		switch {
		case volume.Projected != nil:
			mount.MountPath = tokenMountPath
			mount.ReadOnly = true
		case volume.EmptyDir == nil:
			mount.ReadOnly = true
		}
		c.VolumeMounts = append(c.VolumeMounts, mount)
	}
	return c
}

func probe(path string, port int) *corev1.Probe {
	return &corev1.Probe{
		ProbeHandler: corev1.ProbeHandler{HTTPGet: &corev1.HTTPGetAction{
			Path: path, Port: intstr.FromInt32(int32(port)), Scheme: corev1.URISchemeHTTP,
		}},
		InitialDelaySeconds: 5, TimeoutSeconds: 1, PeriodSeconds: 10, SuccessThreshold: 1, FailureThreshold: 3,
	}
}

// podVolumes returns the volumes of a pod. The last volume is the service account's
// token, in the form in which admission adds it.
func (g *Generator) podVolumes(app int, shape podShape) []corev1.Volume {
	if shape.level < levelTypical {
		return nil
	}
	name := g.words.apps[app]
	mode := int32(0o644)
	var volumes []corev1.Volume
	for n := range 2 * (shape.level - levelTypical) {
		volume := corev1.Volume{Name: "volume-" + strconv.Itoa(n)}
		switch n % 3 {
		case 0:
			volume.ConfigMap = &corev1.ConfigMapVolumeSource{
				LocalObjectReference: corev1.LocalObjectReference{Name: fmt.Sprintf("%s-config-%d", name, n)},
				DefaultMode:          &mode,
			}
		case 1:
			volume.Secret = &corev1.SecretVolumeSource{SecretName: fmt.Sprintf("%s-secret-%d", name, n), DefaultMode: &mode}
		case 2:
			volume.EmptyDir = &corev1.EmptyDirVolumeSource{}
		}
		volumes = append(volumes, volume)
	}
	seconds := int64(3607)
	draw := newStream(g.shape.Seed, drawEnv, app*16)
	token := corev1.Volume{Name: "kube-api-access-" + safeName(draw.next(), 0, 5)}
	token.Projected = &corev1.ProjectedVolumeSource{
		DefaultMode: &mode,
		Sources: []corev1.VolumeProjection{
			{ServiceAccountToken: &corev1.ServiceAccountTokenProjection{ExpirationSeconds: &seconds, Path: "token"}},
			{ConfigMap: &corev1.ConfigMapProjection{
				LocalObjectReference: corev1.LocalObjectReference{Name: "kube-root-ca.crt"},
				Items:                []corev1.KeyToPath{{Key: "ca.crt", Path: "ca.crt"}},
			}},
			{DownwardAPI: &corev1.DownwardAPIProjection{Items: []corev1.DownwardAPIVolumeFile{{
				Path:     "namespace",
				FieldRef: &corev1.ObjectFieldSelector{APIVersion: "v1", FieldPath: "metadata.namespace"},
			}}}},
		},
	}
	return append(volumes, token)
}

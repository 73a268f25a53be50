"""GKE and EKS without an account: the real Pulumi engine against stand-in clouds.

`standin/` is test code that takes the place of the `gcp` and `aws` providers. It says no wherever the clouds'
own definitions or documented rules say no, and it never touches a cloud. What it cannot prove is listed in
docs/reference/evidence.md.
"""
